//! Fuzz target: arbitrary bytes as messages between a supervisor and its workers.

use serde::Serialize;
use serde::de::DeserializeOwned;

use strandline_ipc::{frame, read_frame as read};

use super::{ToSupervisor, ToWorker};

pub(in crate::server) fn run(bytes: &[u8]) {
    one::<ToWorker>(bytes);
    one::<ToSupervisor>(bytes);
}

/// A message that was read and written again reads the same.
fn one<T: DeserializeOwned + Serialize + PartialEq + core::fmt::Debug>(bytes: &[u8]) {
    let mut rest = bytes;
    let Ok((head, body)) = read::<T>(&mut rest) else { return };
    assert!(body.len() + rest.len() <= bytes.len());
    let again = frame(&head, &body).and_then(|whole| read::<T>(&mut &whole[..]));
    assert!(again.is_ok_and(|again| again == (head, body)));
}
