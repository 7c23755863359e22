//! From the wire's messages to the model; the only place here that knows both.
