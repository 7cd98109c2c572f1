//! Messages that were not sent yet: the queue, the schedulers, and what keeps messages out of them.
//!
//! | file | concern |
//! |---|---|
//! | [`queue`] | the queue, and the accounts of the send buffer |
//! | [`scheduler`] | which stream is next (RFC 8260 section 3) |
//! | [`settings`] | what the application has set of the order |
//! | [`held`] | messages that wait for a reset of their streams |
//! | [`parked`] | messages that wait for stream credit |
//! | [`stream_tracking`] | what a reset or the end of a stream waits for |

pub(in crate::outbound) mod held;
pub(in crate::outbound) mod parked;
pub(in crate::outbound) mod queue;
pub(in crate::outbound) mod scheduler;
pub(in crate::outbound) mod settings;
pub(in crate::outbound) mod stream_tracking;
