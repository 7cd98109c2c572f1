//! The tables of a configuration file. The options of the command line fill the same tables.

use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::mapping::Map;

/// A configuration file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    pub(super) listen: Option<String>,
    pub(super) sctp_port: Option<u16>,
    pub(super) insecure: bool,
    pub(super) encryption: Option<Encryption>,
    pub(super) shards: Option<u16>,
    pub(super) congestion: Option<String>,
    pub(super) multipath: Option<String>,
    pub(super) admin: Option<String>,
    pub(super) admin_token: Option<std::path::PathBuf>,
    pub(super) access_log: Option<std::path::PathBuf>,
    pub(super) drain_timeout_secs: Option<u32>,
    pub(super) restart_timeout_secs: Option<u32>,
    pub(super) peer: Vec<Peer>,
    pub(super) socks: Vec<Proxy>,
    pub(super) http_connect: Vec<Proxy>,
    pub(super) preload: Vec<Proxy>,
    pub(super) forward: Vec<Forward>,
    pub(super) reverse: Vec<Forward>,
    pub(super) redirect: Vec<Transparent>,
    pub(super) tproxy: Vec<Transparent>,
    pub(super) access: Vec<Access>,
    pub(super) map: Vec<MapRule>,
    pub(super) priority: Vec<PriorityRule>,
    pub(super) limits: Limits,
}

/// How associations are encrypted, and whom to trust: as `strandline::encryption::Options`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Encryption {
    pub(super) key: Option<std::path::PathBuf>,
    pub(super) trust: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) addresses: Vec<String>,
    pub(super) sctp_port: Option<u16>,
    #[serde(default)]
    pub(super) keep: Keep,
    pub(super) idle_timeout_secs: Option<u32>,
    #[serde(default)]
    pub(super) fallback: Fallback,
    pub(super) wait_ms: Option<u32>,
    pub(super) map: Option<Map>,
    pub(super) contexts_max: Option<u32>,
    #[serde(default)]
    pub(super) trust: Vec<String>,
    #[serde(default)]
    pub(super) insecure: bool,
}

/// How long an association with a peer lasts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Keep {
    /// Always: it is set up at once, and again when it breaks.
    #[default]
    Warm,
    /// From the first connection until there was none for a while.
    OnDemand,
}

/// Where connections go while there is no association.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fallback {
    /// They fail after a while.
    #[default]
    None,
    /// Straight to their destination over TCP.
    Tcp,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Proxy {
    pub(super) listen: String,
    pub(super) peer: Option<String>,
    #[serde(default)]
    pub(super) early_reply: bool,
    #[serde(default)]
    pub(super) from: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Forward {
    pub(super) listen: String,
    pub(super) peer: Option<String>,
    pub(super) to: String,
    #[serde(default)]
    pub(super) protocol: Protocol,
    /// Only of UDP, as the next one.
    pub(super) lifetime_ms: Option<u32>,
    pub(super) idle_timeout_secs: Option<u32>,
    #[serde(default)]
    pub(super) from: Vec<String>,
}

/// What a forward carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Protocol {
    #[default]
    Tcp,
    Udp,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Transparent {
    pub(super) listen: String,
    pub(super) peer: Option<String>,
    #[serde(default)]
    pub(super) capture: Vec<String>,
    #[serde(default)]
    pub(super) from: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Access {
    pub(super) from: Vec<String>,
    pub(super) key: StringOrList,
    pub(super) allow: Vec<String>,
    pub(super) allow_udp: Vec<String>,
    pub(super) allow_listen: Vec<String>,
    pub(super) allow_listen_udp: Vec<String>,
    pub(super) proxy_protocol: bool,
}

/// Which connections become streams.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MapRule {
    #[serde(default)]
    pub(super) to: StringOrList,
    #[serde(default)]
    pub(super) listener: StringOrList,
    pub(super) peer: Option<String>,
    pub(super) map: Map,
}

/// Which connections go before others.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PriorityRule {
    pub(super) to: StringOrList,
    pub(super) class: Option<PriorityClass>,
    pub(super) first_kib: Option<u32>,
}

/// Whether all of a connection goes before others, or nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PriorityClass {
    Interactive,
    Bulk,
}

/// A text, or a list of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StringOrList(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for StringOrList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = StringOrList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a list of them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<StringOrList, E> {
                Ok(StringOrList(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<StringOrList, A::Error> {
                let mut keys = Vec::new();
                while let Some(key) = list.next_element()? {
                    keys.push(key);
                }
                Ok(StringOrList(keys))
            }
        }
        deserializer.deserialize_any(OneOrMore)
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Limits {
    pub(super) associations_max: Option<u32>,
    pub(super) connections_max: Option<u32>,
    pub(super) connections_per_sec: Option<u32>,
    pub(super) bytes_per_sec: Option<u64>,
    pub(super) connect_timeout_secs: Option<u32>,
    pub(super) keepalive_secs: Option<u32>,
    pub(super) buffer_mib: Option<u32>,
    pub(super) buffer_total_mib: Option<u32>,
}
