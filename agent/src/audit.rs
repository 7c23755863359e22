//! What is left after a case: of the job (a finding) and of ringbreaker (a failure).
