//! Chunks that were sent and not cumulatively acknowledged.
//!
//! | file | concern |
//! |---|---|
//! | [`outstanding`] | a record for each chunk, in TSN order |
//! | [`send_times`] | when they were first sent |
//! | [`resent`] | the log of retransmissions |
//! | [`lowest`] | the lowest chunk of each path |

pub(in crate::outbound) mod lowest;
pub(in crate::outbound) mod outstanding;
pub(in crate::outbound) mod resent;
pub(in crate::outbound) mod send_times;
