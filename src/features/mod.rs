//! Network x batch x stage to named numbers.
