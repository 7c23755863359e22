//! How long a fault may live without being renewed.
