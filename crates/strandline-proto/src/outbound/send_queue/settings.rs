//! What the application has set of the order of messages, and of its streams: it holds while nothing is queued, too.

use std::collections::BTreeMap;

use crate::config::StreamScheduler;
use crate::number::StreamId;

/// The scheduler and the parameter of each stream (RFC 8260 sections 4.3.2 and 4.3.3), and which streams are dynamic.
/// Allocated on first use.
#[derive(Debug, Default)]
pub(crate) struct Settings(Option<Box<Set>>);

#[derive(Debug, Default)]
struct Set {
    /// The scheduler, if it isn't that of the configuration.
    scheduler: Option<StreamScheduler>,
    /// The values that aren't 0.
    values: BTreeMap<StreamId, u16>,
    /// The first stream that is opened and closed at run time, if there are such streams.
    dynamic_from: Option<StreamId>,
}

impl Settings {
    /// Returns the scheduler, if it isn't that of the configuration.
    pub(crate) fn scheduler(&self) -> Option<StreamScheduler> {
        self.0.as_ref()?.scheduler
    }

    /// Sets the scheduler; `None` for that of the configuration.
    pub(crate) fn set_scheduler(&mut self, scheduler: Option<StreamScheduler>) {
        if self.scheduler() != scheduler {
            self.0.get_or_insert_default().scheduler = scheduler;
            self.release();
        }
    }

    /// Returns the priority or weight of a stream. Default 0.
    pub(crate) fn value(&self, stream: StreamId) -> u16 {
        self.0.as_ref().and_then(|set| set.values.get(&stream).copied()).unwrap_or(0)
    }

    /// Sets the priority or weight of a stream.
    pub(crate) fn set_value(&mut self, stream: StreamId, value: u16) {
        if value > 0 {
            self.0.get_or_insert_default().values.insert(stream, value);
        } else if let Some(set) = &mut self.0 {
            set.values.remove(&stream);
            self.release();
        }
    }

    /// Forgets the values of all dynamic streams, whose numbers begin anew.
    pub(crate) fn forget_dynamic(&mut self) {
        if let Some(Set { dynamic_from: Some(first), values, .. }) = self.0.as_deref_mut() {
            values.split_off(first);
        }
    }

    /// Returns the first dynamic stream.
    pub(crate) fn dynamic_from(&self) -> Option<StreamId> {
        self.0.as_ref()?.dynamic_from
    }

    /// Sets the first dynamic stream.
    pub(crate) fn set_dynamic_from(&mut self, first: StreamId) {
        self.0.get_or_insert_default().dynamic_from = Some(first);
    }

    /// Forgets the values of streams that the association does not have.
    pub(crate) fn limit_streams(&mut self, streams: u16) {
        if let Some(set) = &mut self.0 {
            set.values.split_off(&StreamId(streams));
            self.release();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn release(&mut self) {
        self.0.take_if(|set| set.scheduler.is_none() && set.values.is_empty() && set.dynamic_from.is_none());
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let of = |set: &Set| size_of::<Set>() + set.values.len() * size_of::<(StreamId, u16)>();
        self.0.as_ref().map_or(0, |set| of(set))
    }
}
