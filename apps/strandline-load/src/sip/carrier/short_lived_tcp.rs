//! Short-lived TCP connections: one for each transaction or for each call, on both sides. The callee listens,
//! and the server connects to it, as to a phone that is behind no NAT.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use strandline::Address;
use strandline_measure::raise_open_files;
use strandline_tls::{AcceptErrors, Wire};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::sip::answer::Came;
use crate::sip::load::{Carrier, Load};
use crate::sip::out::Out;

use super::tcp::{ANSWER_MAX, Source, To, connect_with, receive, write_rest};
use super::{by_source, bytes};

/// The scope of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sip) enum For {
    Transaction,
    Dialog,
}

/// An operation: its slot and generation.
type Operation = (usize, u32);

/// One connection, from the time when it is requested.
#[derive(Default)]
struct Line {
    source: Rc<Source>,
    /// Whether the call was refused, so that its ACK is the last message.
    refused: Cell<bool>,
    /// Notified when no more messages come or go.
    end: Notify,
}

/// Connections by the slot of their operation; there are as many slots as concurrent operations.
#[derive(Default)]
struct Lines(RefCell<HashMap<usize, (u32, Rc<Line>)>>);

impl Lines {
    fn insert(&self, (slot, generation): Operation, line: &Rc<Line>) {
        self.0.borrow_mut().insert(slot, (generation, Rc::clone(line)));
    }

    fn find(&self, (slot, generation): Operation) -> Option<Rc<Line>> {
        let lines = self.0.borrow();
        let (of, line) = lines.get(&slot)?;
        (*of == generation).then(|| Rc::clone(line))
    }

    fn remove(&self, operation: Operation, line: &Rc<Line>) {
        if self.find(operation).is_some_and(|found| Rc::ptr_eq(&found, line)) {
            self.0.borrow_mut().remove(&operation.0);
        }
    }
}

/// The connections.
pub(in crate::sip) struct Passing(Rc<Shared>);

struct Shared {
    each: For,
    to: To,
    local: Vec<Address>,
    callers: Lines,
    callees: Lines,
    listeners: RefCell<Vec<TcpListener>>,
    load: OnceCell<Rc<Load>>,
}

/// Listens for calls at each source, and returns the addresses.
pub(in crate::sip) async fn open(
    to: To,
    local: &[Address],
    sources: usize,
    each: For,
) -> Result<(Passing, Vec<SocketAddr>)> {
    let most = raise_open_files();
    if sources as u64 > most / 2 {
        bail!(
            "{sources} listening sources leave too few of the {most} allowed open files for connections: see ulimit -n"
        );
    }
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    for ip in local.iter().cycle().take(sources) {
        let listener =
            TcpListener::bind(ip.with_port(0)).await.with_context(|| format!("listening at {ip}"))?;
        addresses.push(listener.local_addr()?);
        listeners.push(listener);
    }
    let shared = Shared {
        each,
        to,
        local: local.to_vec(),
        callers: Lines::default(),
        callees: Lines::default(),
        listeners: RefCell::new(listeners),
        load: OnceCell::new(),
    };
    Ok((Passing(Rc::new(shared)), addresses))
}

impl Passing {
    /// Accepts calls until the tasks are ended.
    pub(in crate::sip) fn serve(&self, load: &Rc<Load>) {
        let _ = self.0.load.set(Rc::clone(load));
        for (source, listener) in self.0.listeners.take().into_iter().enumerate() {
            tokio::task::spawn_local(be_called(Rc::clone(&self.0), source, listener, Rc::clone(load)));
        }
    }
}

impl Carrier for Passing {
    fn send(&self, out: &Out, _: &Load) {
        for (source, messages) in by_source(out) {
            for message in messages {
                self.0.send_one(source, bytes(out, message));
            }
        }
    }
}

impl Shared {
    fn send_one(self: &Rc<Self>, source: usize, message: &[u8]) {
        let came = Came { bytes: message };
        let operation = came.call().map(|mark| (mark.slot, mark.generation));
        match (came.status(), operation) {
            (Some(code), Some(operation)) => self.answer(operation, code, &came),
            (Some(_), None) => {}
            (None, Some(operation)) if self.each == For::Dialog => match self.callers.find(operation) {
                Some(line) if came.method() != b"INVITE" => {
                    let last = line.refused.get();
                    line.push(message, last);
                }
                _ => self.open_line(source, message, Some(operation)),
            },
            (None, _) => self.open_line(source, message, None),
        }
    }

    /// Sends an answer of the callee over the connection on which the request arrived.
    fn answer(&self, operation: Operation, code: u16, came: &Came<'_>) {
        let Some(line) = self.callees.find(operation) else { return };
        let over = self.each == For::Transaction || came.value("CSeq").ends_with(b"BYE");
        line.push(came.bytes, code >= 200 && over);
    }

    /// Opens a connection that begins with this request. If it serves a dialog, it is found by its operation.
    fn open_line(self: &Rc<Self>, source: usize, request: &[u8], operation: Option<Operation>) {
        let line = Rc::new(Line::default());
        if let Some(operation) = operation {
            self.callers.insert(operation, &line);
        }
        let (Some(load), Some(local)) = (self.load.get(), self.local.get(source % self.local.len().max(1)))
        else {
            return;
        };
        let call = Call { source, local: *local, line, load: Rc::clone(load), operation };
        tokio::task::spawn_local(call.make(Rc::clone(self), request.to_vec()));
    }
}

impl Line {
    /// Sends a message. With `last` it is the last one of this connection.
    fn push(self: &Rc<Self>, message: &[u8], last: bool) {
        self.source.pending.borrow_mut().extend_from_slice(message);
        if self.source.stream.borrow().is_none() || self.source.writing.get() || self.source.write() {
            if last {
                self.end.notify_one();
            }
            return;
        }
        self.source.writing.set(true);
        let line = Rc::clone(self);
        tokio::task::spawn_local(async move {
            write_rest(Rc::clone(&line.source)).await;
            if last {
                line.end.notify_one();
            }
        });
    }
}

/// The purpose of a caller's connection.
struct Call {
    source: usize,
    local: Address,
    line: Rc<Line>,
    load: Rc<Load>,
    operation: Option<Operation>,
}

impl Call {
    async fn make(self, shared: Rc<Shared>, request: Vec<u8>) {
        let talk = async {
            let (stream, written) = connect_with(self.local, &shared.to, &request).await?;
            // BYE follows ACK at once, and would wait for the acknowledgement of the ACK.
            stream.tcp().set_nodelay(true)?;
            let stream = Rc::new(stream);
            let rest = request.get(written..).unwrap_or(&[]).to_vec();
            // Messages queued while the connection was being opened come after that.
            self.line.source.pending.borrow_mut().splice(..0, rest);
            self.line.source.stream.replace(Some(Rc::clone(&stream)));
            if !self.line.source.write() {
                write_rest(Rc::clone(&self.line.source)).await;
            }
            // ACK has no answer: its connection is over.
            if self.operation.is_none() && request.starts_with(b"ACK ") {
                return Ok(true);
            }
            Ok::<_, io::Error>(
                receive(&stream, self.source, &self.load, |message| self.is_over(message)).await,
            )
        };
        tokio::select! {
            talked = timeout(ANSWER_MAX, talk) => {
                if !matches!(talked, Ok(Ok(true))) {
                    self.load.count_lost();
                }
            }
            () = self.line.end.notified() => {}
        }
        self.line.source.stream.replace(None);
        if let Some(operation) = self.operation {
            shared.callers.remove(operation, &self.line);
        }
    }

    /// Returns whether this message is the last one.
    fn is_over(&self, message: &[u8]) -> bool {
        let came = Came { bytes: message };
        let Some(code) = came.status().filter(|code| *code >= 200) else { return false };
        if self.operation.is_none() {
            return true;
        }
        let invite = came.value("CSeq").ends_with(b"INVITE");
        self.line.refused.set(invite && code >= 300);
        !invite
    }
}

/// Accepts connections at a source.
async fn be_called(shared: Rc<Shared>, source: usize, listener: TcpListener, load: Rc<Load>) {
    let mut errors = AcceptErrors::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::task::spawn_local(serve(Rc::clone(&shared), source, stream, Rc::clone(&load)));
            }
            Err(error) => {
                if let Err(error) = errors.recover(error).await {
                    return tracing::error!(%error, "accepting TCP connections failed");
                }
            }
        }
    }
}

/// Handles messages on such a connection until either side closes it.
async fn serve(shared: Rc<Shared>, source: usize, stream: TcpStream, load: Rc<Load>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "setting TCP_NODELAY failed");
    }
    let stream = Rc::new(Wire::plain(stream));
    let line = Rc::new(Line::default());
    line.source.stream.replace(Some(Rc::clone(&stream)));
    let reading = receive(&stream, source, &load, |message| {
        if let Some(mark) = (Came { bytes: message }).call() {
            shared.callees.insert((mark.slot, mark.generation), &line);
        }
        false
    });
    tokio::select! {
        _ = reading => {}
        () = line.end.notified() => {}
    }
    line.source.stream.replace(None);
}
