//! The order of messages of different streams, as the application sets it (RFC 8260 sections 4.3.2 and 4.3.3).

use super::send_queue::settings::Settings;
use super::{Numbers, Outbound};
use crate::config::StreamScheduler;
use crate::error::StreamValueError;
use crate::number::StreamId;

/// Sets the order of messages of different streams. `configured` is the order of the configuration.
pub(crate) fn set_scheduler(outbound: &mut Outbound, wanted: StreamScheduler, configured: StreamScheduler) {
    change(outbound, |settings| settings.set_scheduler((wanted != configured).then_some(wanted)));
    if let Some(busy) = &mut outbound.busy {
        busy.queue.set_scheduler(&mut busy.messages, wanted);
    }
}

/// Sets the priority or weight of a stream.
///
/// # Errors
/// Fails if the association does not have the stream.
pub(crate) fn set_value(
    outbound: &mut Outbound,
    stream: StreamId,
    value: u16,
) -> Result<(), StreamValueError> {
    check(outbound, stream)?;
    change(outbound, |settings| settings.set_value(stream, value));
    if let Some(busy) = &mut outbound.busy {
        busy.queue.on_value(stream, value);
    }
    Ok(())
}

/// Returns the priority or weight of a stream.
///
/// # Errors
/// Fails if the association does not have the stream.
pub(crate) fn value(outbound: &Outbound, stream: StreamId) -> Result<u16, StreamValueError> {
    check(outbound, stream)?;
    let settings = match &outbound.busy {
        Some(busy) => Some(&busy.queue.settings),
        None => outbound.numbers.state().map(|beside| &beside.settings),
    };
    Ok(settings.map_or(0, |settings| settings.value(stream)))
}

/// Forgets the value of a stream whose number may be used for another purpose. Nothing of it waits to be sent.
pub(crate) fn forget_value(outbound: &mut Outbound, stream: StreamId) {
    if value(outbound, stream).is_ok_and(|value| value != 0) {
        // The association has the stream.
        let _ = set_value(outbound, stream, 0);
    }
}

/// Forgets the values of all streams that are opened and closed at run time.
pub(super) fn forget_dynamic(outbound: &mut Outbound) {
    if outbound.busy.is_some() || outbound.numbers.state().is_some() {
        change(outbound, Settings::forget_dynamic);
    }
}

/// Takes over the settings of an association that has restarted, of which nothing is left, except the values of streams
/// that are lost with their uses.
pub(crate) fn keep_settings(outbound: &mut Outbound, mut before: Outbound) {
    let mut settings = take_settings(&mut before.numbers);
    settings.forget_dynamic();
    put_settings(&mut outbound.numbers, settings);
    limit_streams(outbound);
}

/// Forgets the values of streams that the association does not have.
pub(super) fn limit_streams(outbound: &mut Outbound) {
    if outbound.busy.is_some() || outbound.numbers.state().is_some() {
        let streams = outbound.streams;
        change(outbound, |settings| settings.limit_streams(streams));
    }
}

/// Begins a packet. `has_data`: there are retransmissions in it. Returns true if it may carry new data.
#[inline]
pub(crate) fn begin_packet(outbound: &mut Outbound, has_data: bool) -> bool {
    outbound.busy.as_mut().is_none_or(|busy| busy.queue.begin_packet(has_data))
}

/// Takes out the settings for the queue of an association that becomes busy.
pub(super) fn take_settings(numbers: &mut Numbers) -> Settings {
    numbers.state_mut().map(|beside| core::mem::take(&mut beside.settings)).unwrap_or_default()
}

/// Puts back the settings of an association that becomes idle.
pub(super) fn put_settings(numbers: &mut Numbers, settings: Settings) {
    if !settings.is_empty() {
        numbers.state_or_default().settings = settings;
    } else if numbers.state().is_some_and(|beside| beside.interleaving.is_none()) {
        numbers.release_idle();
    }
}

/// Changes the settings, which are in the queue while there is one.
pub(super) fn change(outbound: &mut Outbound, change: impl FnOnce(&mut Settings)) {
    if let Some(busy) = &mut outbound.busy {
        return change(&mut busy.queue.settings);
    }
    let mut settings = take_settings(&mut outbound.numbers);
    change(&mut settings);
    put_settings(&mut outbound.numbers, settings);
}

fn check(outbound: &Outbound, stream: StreamId) -> Result<(), StreamValueError> {
    let streams = outbound.streams;
    if stream.0 >= streams {
        return Err(StreamValueError::InvalidStream { stream: stream.0, streams });
    }
    Ok(())
}
