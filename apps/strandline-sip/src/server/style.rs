//! What can be chosen on the command line and in the configuration.

use serde::Deserialize;

/// What sockets an SCTP port has (RFC 6458).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SctpStyle {
    /// One for all associations.
    #[default]
    OneToMany,
    /// One for each.
    OneToOne,
}

/// What carries the packets of an SCTP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SctpCarrier {
    /// UDP (RFC 6951).
    #[default]
    Udp,
    /// IP itself, as protocol 132.
    Ip,
}
