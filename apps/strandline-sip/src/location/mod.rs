//! Where users are: addresses of record and their bindings (RFC 3261 section 10). No I/O, no clock.

mod aor;
mod binding;
mod journal;
mod nodes;
mod seal;
mod table;

pub use aor::write_aor;
pub use binding::{Binding, FlowUse, Origin};
pub use journal::Journal;
pub use nodes::Nodes;
pub use seal::SealFlow;
pub use table::Locations;
