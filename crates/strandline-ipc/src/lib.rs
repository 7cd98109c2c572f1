//! Communication of the processes of one server over Unix sockets: descriptors ([`send_descriptors`],
//! [`send_note`]), frames between a supervisor and its workers ([`frame`], [`read_frame`], [`Outlet`]), and
//! batches of messages between workers ([`Outbox`], [`Inbox`]).
#![forbid(unsafe_code)]

mod batches;
mod descriptors;
mod frame;
mod outlet;

pub use batches::{BATCHES_MAX, Inbox, Outbox};
pub use descriptors::{DESCRIPTORS_MAX, receive_descriptors, receive_note, send_descriptors, send_note};
pub use frame::{frame, read_frame};
pub use outlet::{FrameWriter, Outlet};
