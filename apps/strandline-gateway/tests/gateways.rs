//! Gateways as processes are tested with the program; here is nothing yet.
