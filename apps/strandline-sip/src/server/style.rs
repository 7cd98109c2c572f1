//! Options common to the command line and the configuration.

use serde::Deserialize;

/// The socket style of an SCTP port (RFC 6458).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SctpStyle {
    /// One socket for all associations.
    #[default]
    OneToMany,
    /// One socket for each association.
    OneToOne,
}

/// The carrier of an SCTP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SctpCarrier {
    /// UDP (RFC 6951).
    #[default]
    Udp,
    /// IP directly, as protocol 132.
    Ip,
}
