//! Simulated worlds in virtual time: one program, so that its tests share the processors.

mod congestion;
mod diagnostics;
mod harness;
mod named;
mod regressions;
mod scenarios;
mod seeds;
