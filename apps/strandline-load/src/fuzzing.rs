//! Fuzz targets: functions of any bytes that panic if a parser of this crate breaks a promise.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::job::{Command, Job, Outcome, Report};
pub use crate::perf::fuzzing::run as perf_control;
pub use crate::sip::fuzzing::scenario;

/// What the processes of a load are told and tell: a line that was read is written so that it can be read.
pub fn load_control(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let _ = (line::<Job>(text), line::<Command>(text));
    if let Some(Report::Done(outcome)) = line::<Report>(text) {
        let mut total = Outcome::default();
        total.merge(&outcome);
    }
    crate::associations::fuzzing::run(text);
    crate::sip::fuzzing::control(text);
}

/// What a line says.
pub(crate) fn line<T: Serialize + DeserializeOwned>(text: &str) -> Option<T> {
    let said: T = serde_json::from_str(text).ok()?;
    let again = serde_json::to_string(&said).and_then(|text| serde_json::from_str::<T>(&text));
    assert!(again.is_ok(), "{text}");
    Some(said)
}

#[cfg(test)]
mod tests;
