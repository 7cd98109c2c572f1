//! A shard: one carrier, one engine, one lock, and the task that drives them. Shards share only the mailboxes
//! for packets that arrived on the wrong shard.

mod alarm;
pub(crate) mod any;
pub(crate) mod attempt;
mod busy_poll;
pub(crate) mod cell;
pub(crate) mod core;
mod dispatch;
pub(crate) mod driver;
mod drops;
pub(crate) mod dynamic_streams;
pub(crate) mod follow;
mod follower;
mod foreign;
pub(crate) mod one_to_many;
pub(crate) mod one_to_one;
pub(crate) mod outbox;
pub(crate) mod passing;
pub(crate) mod place;
pub(crate) mod post;
mod quiesce;
pub(crate) mod readable;
mod reported_failures;
pub(crate) mod restarts;
pub(crate) mod routes;
pub(crate) mod secure;
pub(crate) mod socket;
pub(crate) mod state;
pub(crate) mod steer;
pub(crate) mod stream_credit;
pub(crate) mod streams;
pub(crate) mod table;
