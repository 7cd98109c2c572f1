//! Advice for errors when listening.

use std::io;

/// The advice for an error, starting with a colon; empty if there is none.
pub(super) fn listening(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            ": is another server running there, or does another entry of this configuration use the address?"
        }
        io::ErrorKind::AddrNotAvailable => {
            ": this machine does not have the address; `ip address` lists those it has, and 0.0.0.0 or [::] with advertise \
             means all of them"
        }
        io::ErrorKind::PermissionDenied => {
            ": ports below 1024 need CAP_NET_BIND_SERVICE, and SCTP over IP needs CAP_NET_RAW"
        }
        _ => "",
    }
}

/// The advice for the first system error in a chain.
pub(super) fn of_chain(error: &anyhow::Error) -> &'static str {
    error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()).map_or("", listening)
}
