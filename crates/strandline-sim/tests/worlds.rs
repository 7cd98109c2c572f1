//! Simulated worlds in virtual time: one program, so that its tests share the processors.

mod congestion;
mod harness;
mod named;
mod regressions;
mod scenarios;
mod seeds;
