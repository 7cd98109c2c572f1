//! Non-renegable chunks: an NR-SACK reported that the peer never revokes them. Once all chunks of a message
//! are, it leaves although something before it is missing.

use core::ops::RangeInclusive;

use super::{ENDING, Outstanding, Record, State};
use crate::outbound::messages::{MessageKey, Messages};

/// Maximum number of chunks of other messages between two of the same one: messages whose chunks are further
/// apart, which takes many interleaved ones, leave with the cumulative acknowledgement.
const SPREAD_MAX: usize = 64;

/// Records that a chunk that a gap block acknowledges is non-renegable. Returns the bytes that leave the send
/// buffer: if it was the last such chunk of its message, those of all that are outstanding of it.
pub(crate) fn on_non_renegable(
    outstanding: &mut Outstanding,
    index: usize,
    messages: &mut Messages,
) -> usize {
    let record = outstanding.get(index).filter(|record| record.state == State::GapAcked);
    let Some(Record { message: key, .. }) = record.copied() else { return 0 };
    outstanding.change(index, State::NonRenegable);
    let Some(extent) = non_renegable_message(outstanding, index) else { return 0 };
    let mut freed = 0;
    for at in extent {
        let Some(record) = outstanding.get_mut(at).filter(|record| record.message == key) else { continue };
        record.message = MessageKey::NONE;
        freed += usize::from(record.len);
        outstanding.change(at, State::NonRenegableFreed);
    }
    messages.leave(key);
    freed
}

/// Returns where the outstanding chunks of the message of a non-renegable chunk are, if all of them are non-renegable.
///
/// The search goes to both sides alternately and ends at the first chunk that is renegable. So it takes as long as the
/// shorter of two runs of such chunks that the given one joins, and for all chunks of a message n log n.
fn non_renegable_message(outstanding: &Outstanding, index: usize) -> Option<RangeInclusive<usize>> {
    let key = outstanding.get(index)?.message;
    let (mut first, mut last) = (index, index);
    let (mut left, mut right) = (index, index);
    loop {
        let begins = outstanding.get(first)?.offset == 0 || left == 0;
        let ends = outstanding.get(last)?.has(ENDING);
        if begins && ends {
            return Some(first..=last);
        }
        if !begins {
            left -= 1;
            if is_non_renegable_of(outstanding.get(left)?, key, first - left)? {
                first = left;
            }
        }
        if !ends {
            right += 1;
            if is_non_renegable_of(outstanding.get(right)?, key, right - last)? {
                last = right;
            }
        }
    }
}

/// Returns true if a chunk is a non-renegable one of the message, and false if it is one of another message.
/// `None` ends the search: it is renegable, or `distance` from the previous one is too large.
fn is_non_renegable_of(record: &Record, key: MessageKey, distance: usize) -> Option<bool> {
    if record.message == key {
        return (record.state == State::NonRenegable).then_some(true);
    }
    (distance < SPREAD_MAX).then_some(false)
}
