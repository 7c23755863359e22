//! Pure: history to outcome to verdict to documents, and the store they come from.
