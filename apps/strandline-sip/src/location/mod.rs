//! Where users are: addresses of record and their bindings (RFC 3261 section 10). No I/O, no clock.

mod aor;
mod binding;
mod table;
mod text;

pub use aor::write_aor;
pub use binding::{Binding, FlowUse};
pub use table::{Journal, Locations};
pub use text::Text;
