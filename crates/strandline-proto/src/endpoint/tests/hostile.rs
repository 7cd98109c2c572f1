//! Faults of other stacks, tried on this one: docs/other-stacks-bugs.md names the fault behind each test.

mod cookies;
mod data;
mod forward_tsn;
mod framing;
mod sacks;
mod tags;
mod timers;
