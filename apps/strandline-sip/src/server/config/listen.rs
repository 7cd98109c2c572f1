//! `[[listen]]` and `--listen`: the addresses that the server listens on.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use strandline::ParseAddressError;
use strandline::encryption::Options;

use crate::codec::SIP_PORT;
use crate::server::style::{SctpCarrier, SctpStyle};
use crate::transaction::Protocol;

use super::error::{ConfigError, ConfigErrors, wrong};
use super::host::{check_domain, socket_address};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    protocol: String,
    #[serde(deserialize_with = "socket_address")]
    address: SocketAddr,
    advertise: Option<String>,
    sctp_port: Option<u16>,
    style: Option<SctpStyle>,
    carrier: Option<SctpCarrier>,
    encrypted: Option<bool>,
    key: Option<PathBuf>,
    trust: Option<Vec<String>>,
}

/// A listening address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The transport protocol.
    pub protocol: Protocol,
    /// The address; for SCTP in UDP, that of the UDP socket.
    pub address: SocketAddr,
    /// The host that is advertised.
    pub advertise: Option<String>,
    /// The SCTP port.
    pub sctp_port: u16,
    /// The style of the SCTP sockets.
    pub sctp_style: SctpStyle,
    /// The carrier of SCTP.
    pub sctp_carrier: SctpCarrier,
    /// The key of encrypted SCTP, and whom to trust.
    pub sctp_encryption: Option<Options>,
}

impl Listen {
    /// The advertised host: a name or an address.
    pub(in crate::server) fn host(&self) -> String {
        self.advertise.clone().unwrap_or_else(|| self.address.ip().to_string())
    }
}

/// A listening address, and its key in the configuration, for errors: `listen[0]`, or `--listen`.
pub(super) type Keyed = (String, Listen);

/// The key of a part of an entry.
fn key_of(entry: &str, name: &str) -> String {
    if entry.starts_with("--") { entry.to_owned() } else { format!("{entry}.{name}") }
}

/// Checks an entry of the file.
pub(super) fn check(at: usize, listen: Table, errors: &mut ConfigErrors) -> Option<Keyed> {
    let entry = format!("listen[{at}]");
    let key = |name: &str| key_of(&entry, name);
    let protocol = errors.take(protocol(&key("protocol"), &listen.protocol));
    let of_sctp = [
        ("sctp_port", listen.sctp_port.is_some()),
        ("style", listen.style.is_some()),
        ("carrier", listen.carrier.is_some()),
        ("encrypted", listen.encrypted.is_some()),
        ("key", listen.key.is_some()),
        ("trust", listen.trust.is_some()),
    ];
    let is_sctp = protocol.is_none_or(|protocol| protocol == Protocol::Sctp);
    for (name, _) in of_sctp.into_iter().filter(|(_, is_there)| *is_there && !is_sctp) {
        let message = format!("requires protocol = \"sctp\", not {:?}", listen.protocol);
        errors.add(wrong(key(name), message));
    }
    let sctp_carrier = listen.carrier.unwrap_or_default();
    if is_sctp && sctp_carrier == SctpCarrier::Ip && listen.sctp_port.is_some() {
        let message = "requires carrier = \"udp\": over IP the SCTP port is that of the address";
        errors.add(wrong(key("sctp_port"), message));
    }
    let encryption = if is_sctp { encryption(&listen, sctp_carrier) } else { Ok(None) };
    let sctp_encryption = encryption.map_err(|(name, message)| wrong(key(name), message));
    let sctp_encryption = errors.take_or(sctp_encryption, None);
    let port = listen.sctp_port.unwrap_or(SIP_PORT);
    let checked = Listen {
        protocol: protocol?,
        address: listen.address,
        advertise: listen.advertise,
        sctp_port: if sctp_carrier == SctpCarrier::Ip { listen.address.port() } else { port },
        sctp_style: listen.style.unwrap_or_default(),
        sctp_carrier,
        sctp_encryption,
    };
    Some((entry, checked))
}

/// Checks how SCTP is encrypted, and that the files can be read. An error is the name of a key, and what is wrong.
fn encryption(listen: &Table, carrier: SctpCarrier) -> Result<Option<Options>, (&'static str, String)> {
    if listen.encrypted != Some(true) {
        let key = if listen.key.is_some() { "key" } else { "trust" };
        return match listen.key.is_some() || listen.trust.is_some() {
            true => Err((key, "requires encrypted = true".to_owned())),
            false => Ok(None),
        };
    }
    if carrier == SctpCarrier::Ip {
        let message = "requires carrier = \"udp\": SCTP on IP is not encrypted";
        return Err(("encrypted", message.to_owned()));
    }
    let options = Options { key: listen.key.clone(), trust: listen.trust.clone().unwrap_or_default() };
    match options.load() {
        Ok(_) => Ok(Some(options)),
        Err(error) => Err(("encrypted", error.to_string())),
    }
}

fn protocol(key: &str, name: &str) -> Result<Protocol, ConfigError> {
    Protocol::from_name(name.as_bytes()).ok_or_else(|| {
        // In a file, the carrier has its own key.
        let on_ip = if key == "--listen" { ", \"sctp-ip\"" } else { "" };
        let names = format!("\"udp\", \"tcp\", \"sctp\"{on_ip}, \"tls\", \"ws\" or \"wss\"");
        wrong(key, format!("unknown protocol {name:?}: use {names}"))
    })
}

/// Parses an option of the command line.
pub(super) fn parse_listen(text: &str, sctp_style: SctpStyle) -> Result<Listen, ConfigError> {
    let form = || {
        wrong(
            "--listen",
            format!(
                "expected PROTOCOL:ADDRESS:PORT, such as udp:192.0.2.1:5060 or tcp:[2001:db8::1]:5060, not {text:?}"
            ),
        )
    };
    let (name, address) = text.split_once(':').ok_or_else(form)?;
    let sctp_carrier = if name == "sctp-ip" { SctpCarrier::Ip } else { SctpCarrier::Udp };
    let protocol = protocol("--listen", if sctp_carrier == SctpCarrier::Ip { "sctp" } else { name })?;
    let address = strandline::socket_address(address).map_err(|error| match error {
        ParseAddressError::NoSocketAddress(_) => form(),
        other => wrong("--listen", other.to_string()),
    })?;
    let sctp_port = if sctp_carrier == SctpCarrier::Ip { address.port() } else { SIP_PORT };
    Ok(Listen {
        protocol,
        address,
        advertise: None,
        sctp_port,
        sctp_style,
        sctp_carrier,
        sctp_encryption: None,
    })
}

/// Checks that there is an address to advertise.
pub(super) fn check_advertised((entry, listen): &Keyed) -> Result<(), ConfigError> {
    let key = key_of(entry, "advertise");
    match &listen.advertise {
        None if listen.address.ip().is_unspecified() => Err(wrong(
            if *entry == key { "--advertise" } else { &key },
            format!("required with address {}: phones need a name or address to connect to", listen.address),
        )),
        Some(host) => check_domain(&key, host).map(|_| ()),
        None => Ok(()),
    }
}

/// Checks that there is one entry for each protocol, and for SCTP one for each carrier.
pub(super) fn check_numbers(all: &[Keyed], errors: &mut ConfigErrors) {
    for protocol in Protocol::ALL {
        let same: Vec<&Keyed> = all.iter().filter(|(_, listen)| listen.protocol == protocol).collect();
        let [_, (second, _), ..] = same.as_slice() else { continue };
        if protocol == Protocol::Sctp {
            errors.take(check_carriers(&same));
        } else {
            let (name, count) = (protocol.name(), same.len());
            errors.add(wrong(second, format!("{count} entries for {name}: at most one is allowed")));
        }
    }
}

/// SCTP may be configured twice, in UDP and on IP, with one address and port, because the advertised ones
/// apply to both.
fn check_carriers(sctp: &[&Keyed]) -> Result<(), ConfigError> {
    let [(_, one), (key, other)] = sctp else {
        let message =
            format!("{} entries for sctp: at most one over UDP and one over IP are allowed", sctp.len());
        return Err(wrong(sctp.get(2).map_or("listen", |(key, _)| key), message));
    };
    if one.sctp_carrier == other.sctp_carrier {
        let carrier = if one.sctp_carrier == SctpCarrier::Ip { "over IP" } else { "over UDP" };
        return Err(wrong(
            key,
            format!("two entries for sctp {carrier}: at most one over UDP and one over IP are allowed"),
        ));
    }
    if one.sctp_port != other.sctp_port {
        let message = format!(
            "SCTP over UDP and over IP must have the same SCTP port, not {} and {}: only one is advertised",
            one.sctp_port, other.sctp_port
        );
        return Err(wrong(key_of(key, "sctp_port"), message));
    }
    if one.host() != other.host() {
        let message = format!(
            "SCTP over UDP and over IP must advertise the same host, not {} and {}",
            one.host(),
            other.host()
        );
        return Err(wrong(key_of(key, "advertise"), message));
    }
    Ok(())
}

/// Checks that several processes can share the addresses.
pub(super) fn check_shared(all: &[Keyed], errors: &mut ConfigErrors) {
    if let Some((entry, _)) = all.iter().find(|(_, listen)| listen.sctp_carrier == SctpCarrier::Ip) {
        let message = "SCTP over IP requires a single process, because each process would receive all packets; with `processes` use SCTP over UDP";
        errors.add(wrong(key_of(entry, "carrier"), message));
    }
}
