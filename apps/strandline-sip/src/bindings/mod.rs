//! The location service: addresses of record and their bindings (RFC 3261 section 10). No I/O, no clock.

mod aor;
mod binding;
mod instance;
mod journal;
mod nodes;
mod seal;
mod sources;
mod table;
mod text;
mod workers;

pub use aor::write_aor;
pub use binding::{Binding, FlowUse, Origin, is_same_instance};
pub(crate) use instance::is_later;
pub use instance::{bindings_of, has_ended_others, instance_of};
pub use journal::{Fault, Journal};
pub use nodes::Nodes;
pub use seal::SealFlow;
pub use table::Locations;
pub use text::Text;
pub use workers::{stamped, unite};
