//! Transactions in virtual time, one file for each section of RFC 3261 and RFC 6026.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cancel_9_1;
mod harness;
mod invite_client_17_1_1;
mod invite_server_17_2_1;
mod matching_requests_17_2_3;
mod matching_responses_17_1_3;
mod merged_8_2_2_2;
mod non_invite_client_17_1_2;
mod non_invite_server_17_2_2;
mod rfc6026;
