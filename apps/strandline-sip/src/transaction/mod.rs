//! Transactions (RFC 3261 section 17, corrected by RFC 6026): the four state machines, matching and timers.
//! This module does no I/O and reads no clock.
//!
//! | what | where |
//! |---|---|
//! | all transactions of a shard | [`Transactions`] |
//! | INVITE transactions, client and server | [`InviteClient`], [`InviteServer`] |
//! | other transactions, client and server | [`NonInviteClient`], [`NonInviteServer`] |
//! | deadlines by the hundred thousand | [`DeadlineQueues`] |
//! | the source and destination of messages | [`Flow`], [`Outbox`] |
//!
//! A CANCEL is answered without a transaction of its own, because the INVITE that it cancels holds all that
//! is needed.

mod account;
mod balance;
mod chunked_table;
mod client;
mod derive;
mod flow;
mod hex;
mod id;
mod invite_client;
mod invite_server;
mod layer;
mod non_invite_client;
mod non_invite_server;
mod numbers;
mod outbox;
mod queues;
mod server;
mod slots;
mod step;
mod time;
mod timings;

pub(crate) use account::{Account, Charge, Held, Holder};
pub(crate) use balance::Balance;
pub use client::{ClientStep, Ended};
pub(crate) use derive::{OF_RESPONSE, pare};
pub use flow::{Flow, Protocol};
#[cfg(feature = "server")]
pub(crate) use hex::hex;
pub use id::{ClientId, ServerId, ViaBranch, ViaBranchText, WORKERS_MAX, worker_of};
pub use invite_client::InviteClient;
pub use invite_server::InviteServer;
pub(crate) use layer::has_room_for_server;
pub use layer::{Arriving, BeginError, Event, Received, TransactionLimits, Transactions};
pub use non_invite_client::NonInviteClient;
pub use non_invite_server::NonInviteServer;
pub use numbers::{Numbers, OfNumber};
pub use outbox::{Outbox, Outgoing};
pub use queues::DeadlineQueues;
pub use server::{Arrival, ServerEnded, ServerStep};
pub(crate) use slots::Slots;
pub use step::{Timer, Timers};
pub use time::Time;
pub use timings::Timings;
