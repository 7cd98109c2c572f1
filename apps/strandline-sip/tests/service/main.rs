//! Registrar and proxy in virtual time, one file for each procedure.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests say what they measure")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod absent_21_4_18;
mod auth_22;
mod cancel_16_10;
mod chaos;
mod checks_16_3;
mod credentials;
mod dialogs_16_6;
mod edge_rfc5626;
mod ends;
mod flows_rfc5626;
mod folded_7_3_1;
mod forking_16_7;
mod full_10_3;
mod gruu_nodes;
mod gruu_rfc5627;
mod guesses_22;
mod harness;
mod hops;
mod hostile;
mod identified;
mod identity_rfc3325;
mod ipv6;
mod large_18_1_1;
mod nat_contacts;
mod neighbours;
mod neighbours_rfc7339;
mod neighbours_rfc7415;
mod nodes;
mod offers_rfc7339;
mod overload_rfc7339;
mod path_rfc3327;
mod proofs;
mod redirect_8_3;
mod registrar_10_3;
mod relay_16_12;
mod repeated_17_2_2;
mod replaced_rfc5626;
mod routing;
mod servers_rfc3263;
mod sides_16_7;
mod torture;
mod trunks;
mod workers;
