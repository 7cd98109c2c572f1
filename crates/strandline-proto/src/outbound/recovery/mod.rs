//! Acknowledgements, loss detection, and spurious retransmissions.
//!
//! | file | concern |
//! |---|---|
//! | [`send_window`] | the chunks with all that is known of them |
//! | [`on_sack`] | processing of a SACK |
//! | [`gaps`] | Gap Ack Blocks, compared with those of the previous SACK |
//! | [`ack`] | the effects on each path |
//! | [`rack`] | loss detection by time: its state (RFC 8985) |
//! | [`loss_detection`] | loss detection by time: its rules |
//! | [`too_soon`] | answers that belong to an earlier transmission |
//! | [`miss_indications`] | loss detection of RFC 9260 section 7.2.4 |
//! | [`congestion_event`] | which losses are one event |
//! | [`probing_retransmission`] | the answer to a time-out on another path |
//! | [`frto`] | spurious time-outs (RFC 5682) |
//! | [`spurious`] | spurious retransmissions |

pub(in crate::outbound) mod ack;
pub(in crate::outbound) mod congestion_event;
pub(in crate::outbound) mod frto;
pub(in crate::outbound) mod gaps;
pub(in crate::outbound) mod loss_detection;
pub(in crate::outbound) mod miss_indications;
pub(in crate::outbound) mod on_sack;
pub(in crate::outbound) mod probing_retransmission;
pub(in crate::outbound) mod rack;
pub(in crate::outbound) mod send_window;
pub(in crate::outbound) mod spurious;
pub(in crate::outbound) mod too_soon;
