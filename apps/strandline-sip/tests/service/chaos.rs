//! Random actions of phones, hops and timers. The service must send only valid SIP, must not multiply
//! traffic, and must hold no state once everything is quiet. Runs are seeded, so that a failure can be
//! repeated.

use std::time::Duration;

use strandline_sip::codec::{Index, Message};
use strandline_sip::resolution::{Answer, Found, Server};
use strandline_sip::service::{Alias, Directory, Hop, Mode, Relay, Route, Settings};
use strandline_sip::transaction::{ClientId, Flow, Protocol, Time};

use crate::harness::{Phone, World, in_dialog, response, settings};

const SEEDS: u64 = 150;
const STEPS: u32 = 400;
const USERS: [&str; 5] = ["alice", "bob", "carol", "dave", "+4420"];
const CODES: [u16; 20] =
    [100, 180, 180, 183, 200, 200, 200, 202, 302, 401, 404, 407, 408, 430, 480, 486, 487, 500, 503, 603];
/// Maximum number of messages that one message may cause: a fork to all contacts of all users, and their
/// CANCELs.
const SENT_MAX: usize = 150;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

fn hop(uri: &str, priority: u16) -> Hop {
    Hop { uri: uri.to_owned(), priority }
}

fn directory() -> Directory {
    let everybody =
        ["alice", "bob", "carol"].map(|user| Alias::User(format!("{user}@example.com").into_bytes()));
    let trunk = Route {
        prefix: Some("+44".to_owned()),
        hops: vec![
            hop("sip:trunk.example", 1),
            hop("sip:203.0.113.1;transport=tcp", 2),
            hop("sip:203.0.113.2", 2),
        ],
        ..Route::default()
    };
    let registrar = Route {
        domain: Some("other.example".to_owned()),
        hops: vec![hop("sip:203.0.113.5", 1)],
        registrar: true,
        ..Route::default()
    };
    let mut all = everybody.to_vec();
    all.push(Alias::Uri(b"sip:desk@192.0.2.77".to_vec()));
    Directory {
        users: [(b"all@example.com".to_vec(), all)].into(),
        routes: vec![trunk, registrar],
        ..Directory::default()
    }
}

struct Chaos {
    random: Random,
    world: World,
    phones: Vec<Phone>,
    /// The phones whose connections are open.
    open: Vec<bool>,
    number: u32,
    /// Sent messages, with their senders.
    said: Vec<(usize, String)>,
    /// Requests that arrived at phones and hops, with the phone that responds.
    asked: Vec<(Phone, String)>,
    /// Responses that arrived at phones.
    told: Vec<(usize, String)>,
    clients: Vec<ClientId>,
    sent_in_all: usize,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let relay = Relay { open: false, from: vec![("192.0.2.128".parse().unwrap(), 25)] };
        let mode = if seed % 8 == 3 { Mode::Redirect } else { Mode::Proxy };
        let durable = seed % 4 == 1;
        let settings = Settings { mode, relay, directory: directory(), names_max: 20, durable, ..settings() };
        let mut phones: Vec<Phone> = (1..4).map(|last| Phone::udp(&format!("192.0.2.{last}:5060"))).collect();
        phones.push(Phone::udp("[2001:db8::7]:5060"));
        phones.push(Phone::udp("192.0.2.129:5060"));
        let connected = [Protocol::Tcp, Protocol::Tls, Protocol::Sctp, Protocol::Ws, Protocol::Tcp];
        for (last, protocol) in (10..).zip(connected) {
            let peer = format!("192.0.2.{last}:40000").parse().unwrap();
            phones.push(Phone(Flow { connection: last, ..Flow::to(protocol, peer) }));
        }
        let mut world = World::with(settings);
        phones
            .iter()
            .filter(|one| one.0.connection != 0)
            .for_each(|one| world.service.connection_opened(one.0.connection));
        let open = vec![true; phones.len()];
        let (said, asked, told, clients) = Default::default();
        Self {
            random: Random(seed),
            world,
            phones,
            open,
            number: 0,
            said,
            asked,
            told,
            clients,
            sent_in_all: 0,
        }
    }

    fn come(&mut self, from: usize, text: String) {
        let phone = self.phones[from];
        if self.open[from] {
            self.world.service.handle_message(self.world.now, phone.0, text.as_bytes());
            self.said.push((from, text));
        }
    }

    /// Takes the messages sent and delivers them.
    fn deliver(&mut self, most: usize) {
        let service = &mut self.world.service;
        let sent: Vec<(Flow, Option<ClientId>, String)> = service
            .output()
            .out
            .iter()
            .chain(service.output().held.iter())
            .map(|(item, bytes)| (item.flow, item.client, String::from_utf8_lossy(bytes).into_owned()))
            .collect();
        assert!(sent.len() <= most, "{} messages", sent.len());
        service.output_mut().out.clear();
        service.output_mut().held.clear();
        service.output_mut().journal.clear();
        self.sent_in_all += sent.len();
        for (flow, client, text) in sent {
            let mut index = Index::new();
            let message = Message::parse(text.as_bytes(), &mut index)
                .unwrap_or_else(|wrong| panic!("{}: {text}", wrong.error));
            assert_eq!(message.as_bytes().len(), text.len(), "nothing stands behind the body: {text}");
            self.clients.extend(client);
            let to = self.phones.iter().position(|one| one.0.peer == flow.peer);
            if message.is_request() {
                message.essentials().unwrap_or_else(|wrong| panic!("{wrong}: {text}"));
                assert!(
                    message.vias().count() > 1 || text.starts_with("CANCEL ") || text.starts_with("ACK "),
                    "{text}"
                );
                self.asked.push((Phone(flow), text));
            } else if let Some(to) = to {
                self.told.push((to, text));
            }
        }
    }

    fn register(&mut self) {
        let (from, user) = (self.random.below(self.phones.len()), *self.random.of(&USERS));
        self.number += 1;
        let contact = self.phones[from].contact(user);
        let param = *self.random.of(&[
            "",
            ";expires=0",
            ";q=0.3",
            ";expires=60",
            ";reg-id=1;+sip.instance=\"<urn:uuid:1>\"",
        ]);
        let more = *self.random.of(&[
            "",
            "Supported: path, outbound, gruu\r\n",
            "Path: <sip:203.0.113.9;lr>\r\n",
            "Require: magic\r\n",
        ]);
        let mut text =
            self.phones[from].register(user, self.number, &format!("{more}Contact: {contact}{param}\r\n"));
        if self.random.below(8) == 0 {
            text = text.replace("example.com", "other.example");
        }
        if self.random.below(8) == 0 {
            text = text.replace(&format!("Contact: {contact}{param}"), "Contact: *\r\nExpires: 0");
        }
        self.come(from, text);
    }

    fn begin(&mut self) {
        let from = self.random.below(self.phones.len());
        let method =
            *self.random.of(&["INVITE", "INVITE", "INVITE", "MESSAGE", "OPTIONS", "SUBSCRIBE", "NOTIFY"]);
        let user = *self.random.of(&["alice", "bob", "carol", "all", "nobody", "+4421"]);
        let host = *self.random.of(&[
            "example.com",
            "example.com",
            "example.com",
            "names.example",
            "203.0.113.3",
            "example.com;maddr=192.0.2.1",
        ]);
        let more = *self.random.of(&[
            "",
            "",
            "Max-Breadth: 2\r\n",
            "Route: <sip:198.51.100.1;lr>\r\n",
            "Priority: emergency\r\n",
            "Proxy-Require: magic\r\n",
        ]);
        self.number += 1;
        let text = self.phones[from].request(
            method,
            &format!("sip:{user}@{host}"),
            &format!("b{}", self.number),
            more,
        );
        self.come(from, text.replace("Call-ID: call", &format!("Call-ID: call{}", self.number)));
    }

    fn answer(&mut self) {
        if self.asked.is_empty() {
            return;
        }
        let at = self.random.below(self.asked.len());
        let (phone, text) = self.asked[at].clone();
        let code = *self.random.of(&CODES);
        if code >= 200 && self.random.below(4) > 0 {
            self.asked.swap_remove(at);
        }
        if !text.starts_with("ACK ") {
            let tag = format!("t{}", self.random.below(3));
            let answer = response(&text, code, &tag);
            self.world.service.handle_message(self.world.now, phone.0, answer.as_bytes());
        }
    }

    /// Sends a request of an existing transaction or dialog.
    fn go_on(&mut self) {
        let invites: Vec<(usize, String)> =
            self.said.iter().filter(|(_, text)| text.starts_with("INVITE ")).cloned().collect();
        if let Some((from, text)) = (!invites.is_empty()).then(|| self.random.of(&invites).clone()) {
            let method = *self.random.of(&["CANCEL", "ACK", "INVITE"]);
            self.come(from, text.replace("INVITE", method));
        }
        let answered: Vec<(usize, String)> = self
            .told
            .iter()
            .filter(|(_, text)| text.starts_with("SIP/2.0 2") && text.contains("\nRecord-Route: "))
            .cloned()
            .collect();
        if !answered.is_empty() {
            let (at, ok) = self.random.of(&answered).clone();
            let method = *self.random.of(&["ACK", "BYE", "UPDATE", "INVITE"]);
            let phone = self.phones[at];
            let target = self.random.of(&self.phones).contact("x");
            self.number += 1;
            let text = in_dialog(
                method,
                &ok,
                target.trim_matches(['<', '>']),
                &phone,
                self.number,
                self.random.below(2) == 0,
            );
            self.come(at, text);
        }
    }

    /// Sends an earlier message with an error in it.
    fn garble(&mut self) {
        if self.said.is_empty() {
            return;
        }
        let (from, text) = self.random.of(&self.said).clone();
        let mut bytes = text.into_bytes();
        for _ in 0..1 + self.random.below(4) {
            let at = self.random.below(bytes.len());
            match self.random.below(4) {
                0 => bytes[at] = *self.random.of(b" \t\r\n;,<>\"@:?=%zZ9\0"),
                1 => bytes.insert(at, *self.random.of(b" ;,<>\"@:?=%9")),
                2 => drop(bytes.remove(at)),
                _ => {
                    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                    let (one, other) = (self.random.below(lines.len()), self.random.below(lines.len()));
                    lines.swap(one, other);
                    bytes = lines.concat();
                }
            }
            if bytes.is_empty() {
                return;
            }
        }
        self.world.service.handle_message(self.world.now, self.phones[from].0, &bytes);
    }

    fn connect(&mut self) {
        let at = self.random.below(self.phones.len());
        let connection = self.phones[at].0.connection;
        if connection == 0 {
            return;
        }
        if self.open[at] {
            self.world.service.connection_closed(connection);
        } else {
            let connection = connection + 100;
            self.phones[at].0.connection = connection;
            self.world.service.connection_opened(connection);
        }
        self.open[at] = !self.open[at];
    }

    fn locate(&mut self) {
        let now = self.world.now;
        for question in self.world.service.servers_mut().take_wanted() {
            let server = |last: u8| Server {
                protocol: Protocol::Udp,
                priority: last.into(),
                weight: 0,
                addresses: vec![([203, 0, 113, last], 5060).into()],
            };
            let found = match self.random.below(4) {
                0 => Found::Nothing,
                1 => Found::NoAnswer,
                _ => Found::Servers(vec![server(20), server(21)]),
            };
            self.world.service.handle_dns_answer(
                now,
                &question,
                Answer { found, ttl: Duration::from_secs(30) },
            );
        }
    }

    fn wait(&mut self, millis: u64) {
        let end = self.world.now.as_millis() + millis;
        while let Some(due) = self.world.service.next_deadline().filter(|due| due.as_millis() <= end) {
            // Transactions that have ended are due at once, whatever the time.
            self.world.now = self.world.now.max(due);
            self.world.service.handle_timeout(self.world.now);
            self.deliver(usize::MAX);
        }
        self.world.now = Time::from_millis(end);
        self.world.service.sweep(self.world.now, 100);
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..16 => self.register(),
            16..36 => self.begin(),
            36..62 => self.answer(),
            62..72 => self.go_on(),
            72..80 => self.garble(),
            80..84 => self.connect(),
            84..90 => {
                self.locate();
                self.deliver(usize::MAX);
            }
            90..94 if !self.clients.is_empty() => {
                let client = *self.random.of(&self.clients);
                self.world.service.send_failed(self.world.now, client);
            }
            94 => {
                let user = format!("{}@example.com", self.random.of(&USERS));
                self.world.service.unbind(self.world.now, user.as_bytes(), None);
            }
            95 => {
                let draining = !self.world.service.setup().is_draining();
                self.world.service.setup_mut().set_draining(draining);
            }
            _ => {
                let millis = *self.random.of(&[1, 50, 210, 500, 2000, 33_000, 190_000]);
                self.wait(millis);
            }
        }
        self.deliver(SENT_MAX);
    }
}

#[test]
fn whatever_comes_nothing_is_left_of_it() {
    let mut sent = 0;
    for seed in 0..SEEDS {
        let done = std::panic::catch_unwind(|| {
            let mut chaos = Chaos::new(seed);
            (0..STEPS).for_each(|_| chaos.step());
            // Answer all queries; everything that was begun must then end by itself.
            for _ in 0..20 {
                chaos.locate();
                chaos.deliver(usize::MAX);
                chaos.wait(100_000);
            }
            assert_eq!(chaos.world.service.transactions().counts(), (0, 0));
            assert_eq!(chaos.world.service.transactions().kept_bytes(), 0);
            assert!(chaos.world.service.contexts().are_answered(), "a request is not answered");
            let (_, asked, waiting) = chaos.world.service.servers().counts();
            assert_eq!((asked, waiting), (0, 0), "names");
            chaos.sent_in_all
        });
        sent += done.unwrap_or_else(|why| {
            println!("seed {seed}");
            std::panic::resume_unwind(why)
        });
    }
    assert!(sent as u64 > SEEDS * u64::from(STEPS) / 4, "hardly anything was sent: {sent}");
}
