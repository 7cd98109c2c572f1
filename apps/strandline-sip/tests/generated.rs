//! Random messages generated from the grammar. However they are written, this codec finds what was put into
//! them, and other codecs find the same as far as they support it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use proptest::sample::select;
use strandline_sip::codec::{HeaderName, Index, Message, MessageWriter, Method};

/// A user with an address.
#[derive(Debug, Clone)]
struct Party {
    display: Option<String>,
    user: String,
    host: String,
    port: Option<u16>,
    tag: String,
}

#[derive(Debug, Clone)]
struct Hop {
    transport: &'static str,
    host: String,
    port: Option<u16>,
    branch: String,
    rport: bool,
}

#[derive(Debug, Clone)]
struct Model {
    method: &'static str,
    target: Party,
    vias: Vec<Hop>,
    from: Party,
    to: Party,
    call_id: String,
    cseq: u32,
    max_forwards: u8,
    contacts: Vec<(Party, Option<u32>)>,
    routes: Vec<String>,
    body: Vec<u8>,
}

/// A host; with `v6`, possibly an IPv6 address.
fn host(v6: bool) -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[a-z][a-z0-9]{0,6}(\\.[a-z]{2,5}){1,2}",
        2 => any::<[u8; 4]>().prop_map(|address| std::net::Ipv4Addr::from(address).to_string()),
        u32::from(v6) => any::<u128>().prop_map(|address| format!("[{}]", std::net::Ipv6Addr::from(address))),
    ]
}

fn party(v6: bool) -> impl Strategy<Value = Party> {
    let display = proptest::option::of("[A-Za-z][A-Za-z0-9 ]{0,10}[a-z]");
    let port = proptest::option::of(1u16..);
    (display, "[a-zA-Z0-9._+-]{1,12}", host(v6), port, "[a-z0-9-]{1,12}")
        .prop_map(|(display, user, host, port, tag)| Party { display, user, host, port, tag })
}

fn hop(v6: bool) -> impl Strategy<Value = Hop> {
    (
        select(&["UDP", "TCP", "TLS", "SCTP", "WS"][..]),
        host(v6),
        proptest::option::of(1u16..),
        "[a-zA-Z0-9.]{1,20}",
        any::<bool>(),
    )
        .prop_map(|(transport, host, port, branch, rport)| Hop { transport, host, port, branch, rport })
}

fn model(v6: bool) -> impl Strategy<Value = Model> {
    let methods = select(&["INVITE", "REGISTER", "BYE", "OPTIONS", "SUBSCRIBE", "MESSAGE"][..]);
    let contact = (party(v6), proptest::option::of(any::<u32>()));
    (
        (methods, party(v6), proptest::collection::vec(hop(v6), 1..4), party(v6), party(v6)),
        ("[a-zA-Z0-9-]{1,20}@[a-z.]{1,10}", any::<u32>(), any::<u8>()),
        proptest::collection::vec(contact, 1..3),
        proptest::collection::vec(host(v6), 0..3),
        proptest::collection::vec(any::<u8>(), 0..60),
    )
        .prop_map(
            |((method, target, vias, from, to), (call_id, cseq, max_forwards), contacts, routes, body)| {
                Model { method, target, vias, from, to, call_id, cseq, max_forwards, contacts, routes, body }
            },
        )
}

/// Variations in how a message is written, as a sequence of choices.
struct Style<'s> {
    choices: &'s [u8],
    next: usize,
}

impl Style<'_> {
    fn choose<'t>(&mut self, ways: &[&'t str]) -> &'t str {
        let choice = self.choices.get(self.next % self.choices.len().max(1)).copied().unwrap_or(0);
        self.next += 1;
        ways[usize::from(choice) % ways.len()]
    }

    /// Optional white space. The first choice is the plain form.
    fn space(&mut self) -> &'static str {
        self.choose(&["", " ", "\t", "  ", "\r\n ", " \r\n\t "])
    }

    fn name(&mut self, ways: &[&str]) -> String {
        format!(
            "{}{}:{}",
            self.choose(ways),
            self.choose(&["", " ", "\t"]),
            self.choose(&[" ", "", "\r\n  "])
        )
    }

    /// `;` with optional white space around it.
    fn semicolon(&mut self) -> String {
        format!("{};{}", self.space(), self.space())
    }
}

fn port(port: Option<u16>) -> String {
    port.map(|port| format!(":{port}")).unwrap_or_default()
}

fn uri(party: &Party) -> String {
    format!("sip:{}@{}{}", party.user, party.host, port(party.port))
}

/// Writes the headers in the order given by the choices.
fn write(model: &Model, choices: &[u8]) -> Vec<u8> {
    let mut style = Style { choices, next: 0 };
    let style = &mut style;
    let mut lines = Vec::new();
    for (number, via) in model.vias.iter().enumerate() {
        let joined = number > 0 && style.choose(&["line", "comma"]) == "comma";
        let start = if joined {
            format!("{},{}", lines.pop().unwrap_or_default(), style.space())
        } else {
            style.name(&["Via", "v", "VIA", "via"])
        };
        let slash = |style: &mut Style<'_>| format!("{}/{}", style.space(), style.space());
        let (first, second) = (slash(style), slash(style));
        let rport = if via.rport { format!("{}rport", style.semicolon()) } else { String::new() };
        let branch =
            format!("{}branch{}={}z9hG4bK{}", style.semicolon(), style.space(), style.space(), via.branch);
        lines.push(format!(
            "{start}SIP{first}2.0{second}{} {}{}{branch}{rport}",
            via.transport,
            via.host,
            port(via.port)
        ));
    }
    let from = address(&model.from, style);
    lines.push(format!(
        "{}{from}{}tag={}",
        style.name(&["From", "f", "FROM"]),
        style.semicolon(),
        model.from.tag
    ));
    let to = address(&model.to, style);
    lines.push(format!("{}{to}{}tag={}", style.name(&["To", "t", "tO"]), style.semicolon(), model.to.tag));
    lines.push(format!("{}{}", style.name(&["Call-ID", "i", "call-id"]), model.call_id));
    lines.push(format!("{}{} {}{}", style.name(&["CSeq", "CSEQ"]), model.cseq, style.space(), model.method));
    lines.push(format!("{}{}", style.name(&["Max-Forwards", "max-forwards"]), model.max_forwards));
    for (contact, expires) in &model.contacts {
        let expires =
            expires.map(|expires| format!("{}expires={expires}", style.semicolon())).unwrap_or_default();
        let contact = address(contact, style);
        lines.push(format!("{}{contact}{expires}", style.name(&["Contact", "m"])));
    }
    for route in &model.routes {
        lines.push(format!("{}<sip:{route};lr>", style.name(&["Route", "ROUTE"])));
    }
    lines.push(format!("{}{}", style.name(&["Content-Length", "l"]), model.body.len()));
    if style.choose(&["", "last"]) == "last" {
        lines.reverse();
    }
    let head = format!("{} {} SIP/2.0\r\n{}\r\n\r\n", model.method, uri(&model.target), lines.join("\r\n"));
    [head.into_bytes(), model.body.clone()].concat()
}

/// Writes a name-addr, or a bare URI if there is no display name and the style chooses so.
fn address(party: &Party, style: &mut Style<'_>) -> String {
    match &party.display {
        Some(name) => {
            let quote = style.choose(&["\"", ""]);
            format!("{quote}{name}{quote} <{}>", uri(party))
        }
        None if style.choose(&["brackets", "bare"]) == "bare" => uri(party),
        None => format!("<{}>", uri(party)),
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn check_party(
    party: &Party,
    found: &strandline_sip::codec::Address<'_>,
    tagged: bool,
) -> Result<(), TestCaseError> {
    let display = found.display.map(|name| text(name).trim_matches('"').to_owned());
    prop_assert_eq!(&display, &party.display);
    prop_assert_eq!(text(found.uri_bytes()), uri(party));
    let uri = found.sip_uri().unwrap();
    prop_assert_eq!(text(uri.user.unwrap()), &party.user);
    prop_assert_eq!(uri.host.to_string(), &party.host[..]);
    prop_assert_eq!(uri.port, party.port);
    prop_assert_eq!(found.tag.map(text), tagged.then_some(&party.tag[..]));
    Ok(())
}

/// Checks that this codec finds in a message what was put into it.
fn check(model: &Model, message: Message<'_>, reversed: bool) -> Result<(), TestCaseError> {
    let essentials = message.essentials().unwrap_or_else(|error| panic!("{error}"));
    prop_assert_eq!(
        message.method().map(|method| method.as_bytes().to_vec()),
        Some(model.method.as_bytes().to_vec())
    );
    check_party(&model.from, &essentials.from, true)?;
    check_party(&model.to, &essentials.to, true)?;
    prop_assert_eq!(text(essentials.call_id), &model.call_id);
    prop_assert_eq!(essentials.cseq.number, model.cseq);
    prop_assert_eq!(essentials.max_forwards, Some(model.max_forwards));
    if !reversed {
        let vias: Vec<_> = message.vias().map(Result::unwrap).collect();
        prop_assert_eq!(vias.len(), model.vias.len());
        for (found, put) in vias.iter().zip(&model.vias) {
            prop_assert_eq!(found.transport.to_string(), put.transport);
            prop_assert_eq!(found.host.to_string(), &put.host[..]);
            prop_assert_eq!(found.port, put.port);
            prop_assert_eq!(found.branch_id().map(text), Some(&put.branch[..]));
            prop_assert_eq!(found.rport, put.rport.then_some(None));
        }
        let contacts: Vec<_> = message.contacts().unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(contacts.len(), model.contacts.len());
        for (found, (put, expires)) in contacts.iter().zip(&model.contacts) {
            check_party(put, found, false)?;
            prop_assert_eq!(found.expires().unwrap(), *expires);
        }
        let routes: Vec<_> =
            message.routes().map(|route| route.unwrap().sip_uri().unwrap().host.to_string()).collect();
        prop_assert_eq!(&routes, &model.routes);
    }
    prop_assert_eq!(message.body(), &model.body[..]);
    Ok(())
}

proptest! {
    #[test]
    fn what_was_put_in_is_found(model in model(true), choices in proptest::collection::vec(any::<u8>(), 1..40)) {
        let bytes = write(&model, &choices);
        let mut index = Index::new();
        let message = match Message::parse(&bytes, &mut index) {
            Ok(message) => message,
            Err(rejected) => panic!("{}: {}", rejected.error, bytes.escape_ascii()),
        };
        let reversed = message.headers().next().is_some_and(|line| line.name() == HeaderName::ContentLength);
        check(&model, message, reversed)?;
    }

    /// A message written from the parsed values is equivalent.
    #[test]
    fn what_was_found_can_be_written_again(model in model(true), choices in proptest::collection::vec(any::<u8>(), 1..40)) {
        let bytes = write(&model, &choices);
        let mut index = Index::new();
        let message = Message::parse(&bytes, &mut index).unwrap();
        let reversed = message.headers().next().is_some_and(|line| line.name() == HeaderName::ContentLength);
        let mut out = BytesMut::new();
        let line = message.request_line().unwrap();
        let mut writer = MessageWriter::request(&mut out, line.method, line.uri);
        for header in message.headers().filter(|header| header.name() != HeaderName::ContentLength) {
            // Line folding is equivalent to a space.
            let value: Vec<u8> = header.value().iter().map(|byte| if byte.is_ascii_whitespace() { b' ' } else { *byte }).collect();
            writer.header_named(header.name_bytes(), &value);
        }
        writer.finish(message.body()).unwrap();
        let mut index = Index::new();
        check(&model, Message::parse(&out, &mut index).unwrap(), reversed)?;
    }

    /// Other codecs find the same in plainly written messages with host names and IPv4 addresses.
    #[test]
    fn other_codecs_find_the_same(model in model(false)) {
        let bytes = write(&model, &[]);
        let mut index = Index::new();
        let ours = Message::parse(&bytes, &mut index).unwrap();
        let essentials = ours.essentials().unwrap();

        let rsip = crate::oracle::rsip(&bytes).expect("rsip accepts it");
        prop_assert_eq!(rsip.request.method.to_string(), text(ours.method().unwrap().as_bytes()));
        prop_assert_eq!(rsip.from.tag().map(|tag| tag.value().as_bytes().to_vec()), essentials.from.tag.map(<[u8]>::to_vec));
        prop_assert_eq!(rsip.to.tag().map(|tag| tag.value().as_bytes().to_vec()), essentials.to.tag.map(<[u8]>::to_vec));
        prop_assert_eq!(rsip.from.uri.to_string(), text(essentials.from.uri_bytes()));
        prop_assert_eq!(rsip.to.uri.to_string(), text(essentials.to.uri_bytes()));
        prop_assert_eq!(rsip.cseq.seq, essentials.cseq.number);
        prop_assert_eq!(rsip.via.branch().map(|branch| branch.value().as_bytes().to_vec()), essentials.via.branch.map(<[u8]>::to_vec));
        prop_assert_eq!(rsip.via.uri.host_with_port.host.to_string(), essentials.via.host.to_string());
        prop_assert_eq!(&rsip.request.body[..], ours.body());

        let ezk = crate::oracle::ezk(&Bytes::from(bytes.clone())).expect("ezk-sip-types accepts it");
        prop_assert_eq!(ezk.line.request_method().unwrap().to_string(), text(ours.method().unwrap().as_bytes()));
        prop_assert_eq!(ezk.from.tag.as_ref().map(|tag| tag.as_str().as_bytes().to_vec()), essentials.from.tag.map(<[u8]>::to_vec));
        prop_assert_eq!(ezk.to.tag.as_ref().map(|tag| tag.as_str().as_bytes().to_vec()), essentials.to.tag.map(<[u8]>::to_vec));
        prop_assert_eq!(ezk.call_id.0.as_str().as_bytes(), essentials.call_id);
        prop_assert_eq!(ezk.cseq.cseq, essentials.cseq.number);
        prop_assert_eq!(ezk.max_forwards.0, essentials.max_forwards.unwrap());
        prop_assert_eq!(ezk.via.transport.as_str().as_bytes(), essentials.via.transport.as_bytes());
        prop_assert_eq!(ezk.via.sent_by.host.to_string(), essentials.via.host.to_string());
        prop_assert_eq!(ezk.via.sent_by.port, essentials.via.port);
        let branch = ezk.via.params.get_val("branch").map(|branch| branch.as_str().as_bytes().to_vec());
        prop_assert_eq!(branch, essentials.via.branch.map(<[u8]>::to_vec));
        let contact = ours.contacts().unwrap().next().unwrap().unwrap().sip_uri().unwrap();
        let theirs = &ezk.contact.expect("a contact").uri.uri;
        prop_assert_eq!(theirs.host_port.host.to_string(), contact.host.to_string());
        prop_assert_eq!(theirs.host_port.port, contact.port);
        prop_assert_eq!(ezk.body, bytes.len() - ours.body().len());
    }
}

#[test]
fn benchmark_samples_parse_everywhere() {
    for (bytes, method) in
        [(crate::oracle::REGISTER, Method::Register), (crate::oracle::INVITE, Method::Invite)]
    {
        let mut index = Index::new();
        assert_eq!(Message::parse(bytes, &mut index).unwrap().method(), Some(method));
        assert!(crate::oracle::rsip(bytes).is_some());
        assert!(crate::oracle::ezk(&Bytes::from_static(bytes)).is_some());
    }
}
