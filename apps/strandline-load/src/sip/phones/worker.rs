//! A process with phones: connects and registers them, and closes their connections.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_setaffinity};
use strandline_measure::now;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::order::{Done, Order, Part};
use super::phone::{Final, Host, Phone};
use crate::sip::orders::obey_all;
use crate::sip::text::{Style, Who};

/// Number of phones that connect or register at once, unless all do.
const AT_ONCE: u64 = 64;
/// Delay after a failure before a phone tries again.
const PAUSE: Duration = Duration::from_millis(500);
/// Time after which a request has failed: 64 T1 (timer F of RFC 3261).
const ANSWER_MAX: Duration = Duration::from_secs(32);
/// Stride through the phones. It is prime, so that each is visited once and neighbours are never visited in a
/// row.
const STRIDE: u64 = 15_485_863;

/// Runs a process of `strandline load phones`.
///
/// # Errors
/// If communication with the controller fails.
pub(crate) fn run() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    obey_all(&runtime, obey)
}

async fn obey(worker: &mut Option<Rc<Worker>>, line: &str) -> Result<Done> {
    let Some(worker) = worker else {
        let part: Part = serde_json::from_str(line).context("reading this process's phones")?;
        *worker = Some(Rc::new(Worker::new(part)?));
        return Ok(Done::default());
    };
    match serde_json::from_str(line).context("reading a command")? {
        Order::Open { to } => worker.open(to).await,
        Order::Register => worker.register().await,
        Order::Probe { count } => worker.probe(count).await,
        Order::Return { at_once } => worker.come_back(at_once).await,
    }
}

/// State that the tasks of the process share.
#[derive(Debug)]
struct Worker {
    part: Part,
    style: Style,
    hosts: Vec<Host>,
    phones: RefCell<Vec<Rc<Phone>>>,
    /// Number of registered phones.
    registered: Cell<u64>,
    cseq: Cell<u32>,
    done: RefCell<Done>,
}

impl Worker {
    fn new(part: Part) -> Result<Self> {
        if let Some(core) = part.core {
            let mut cores = CpuSet::new();
            cores.set(core);
            sched_setaffinity(None, &cores).with_context(|| format!("pinning to core {core}"))?;
        }
        let hosts = part.hosts.iter().map(|local| Host::new(&part, *local)).collect::<Result<Vec<_>>>()?;
        let over_sctp = part.carrier.is_some();
        let style = Style {
            transport: if over_sctp { "SCTP" } else { "TCP" },
            uri_parameter: if over_sctp { ";transport=sctp" } else { ";transport=tcp" },
            domain: "example.com".to_owned(),
            run: part.run,
            first: part.first,
            expires_secs: 3600,
            removes: false,
        };
        Ok(Self {
            part,
            style,
            hosts,
            phones: RefCell::default(),
            registered: Cell::new(0),
            cseq: Cell::new(0),
            done: RefCell::default(),
        })
    }

    fn host(&self, number: u64) -> Result<&Host> {
        let count = self.hosts.len().max(1) as u64;
        self.hosts.get((number % count) as usize).context("no local address for the phones")
    }

    fn phone(&self, number: u64) -> Result<Rc<Phone>> {
        self.phones.borrow().get(number as usize).cloned().context("unknown phone")
    }

    /// Runs an action for a range of numbers, with several tasks at once.
    async fn each<F: Future<Output = Result<()>> + 'static>(
        self: &Rc<Self>,
        numbers: std::ops::Range<u64>,
        at_once: u64,
        work: impl Fn(Rc<Self>, u64) -> F + Clone + 'static,
    ) -> Result<Done> {
        self.done.take();
        let (begin, next) = (now(), Rc::new(Cell::new(numbers.start)));
        let mut tasks = JoinSet::new();
        for _ in 0..at_once.min(numbers.end.saturating_sub(numbers.start)) {
            let (worker, next, work, end) = (Rc::clone(self), Rc::clone(&next), work.clone(), numbers.end);
            tasks.spawn_local(async move {
                while next.get() < end {
                    work(Rc::clone(&worker), next.replace(next.get() + 1)).await?;
                    worker.done.borrow_mut().phones += 1;
                }
                Ok::<_, anyhow::Error>(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        let mut done = self.done.take();
        done.elapsed_s = begin.elapsed().as_secs_f64();
        Ok(done)
    }

    async fn open(self: &Rc<Self>, to: u64) -> Result<Done> {
        let held = self.phones.borrow().len() as u64;
        let open = |worker: Rc<Self>, number| async move {
            let begin = now();
            let phone = Rc::new(worker.host(number)?.connect().await?);
            worker.done.borrow_mut().times.record(begin.elapsed());
            worker.phones.borrow_mut().push(phone);
            Ok(())
        };
        // Uses one address after the other; which phone gets which number doesn't matter.
        self.each(held..to, AT_ONCE, open).await
    }

    async fn register(self: &Rc<Self>) -> Result<Done> {
        let (from, to) = (self.registered.get(), self.phones.borrow().len() as u64);
        let register = |worker: Rc<Self>, number| async move {
            let phone = worker.phone(number)?;
            worker.until_registered(number, &phone, now()).await
        };
        let done = self.each(from..to, AT_ONCE, register).await?;
        self.registered.set(to);
        Ok(done)
    }

    async fn probe(self: &Rc<Self>, count: u64) -> Result<Done> {
        let held = (self.phones.borrow().len() as u64).max(1);
        let probe = move |worker: Rc<Self>, number: u64| async move {
            let number = number.wrapping_mul(STRIDE) % held;
            let phone = worker.phone(number)?;
            worker.until_registered(number, &phone, now()).await
        };
        self.each(0..count, 1, probe).await
    }

    /// Reconnects all phones, `at_once` of them at a time; all at once is a storm.
    async fn come_back(self: &Rc<Self>, at_once: u64) -> Result<Done> {
        let phones = self.phones.take();
        let count = phones.len() as u64;
        for phone in phones {
            Rc::into_inner(phone).context("a phone is still in use")?.end();
        }
        // Gives the server time to detect the end of the connections.
        tokio::time::sleep(4 * PAUSE).await;
        let all = now();
        let come = move |worker: Rc<Self>, number| async move {
            let begin = if at_once < count { now() } else { all };
            let phone = loop {
                let Ok(phone) = worker.host(number)?.connect().await else {
                    worker.done.borrow_mut().broken += 1;
                    tokio::time::sleep(PAUSE).await;
                    continue;
                };
                match worker.until_registered(number, &phone, begin).await {
                    Ok(()) => break phone,
                    Err(_) => {
                        worker.done.borrow_mut().broken += 1;
                        phone.end();
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            };
            worker.phones.borrow_mut().push(Rc::new(phone));
            Ok(())
        };
        self.each(0..count, at_once, come).await
    }

    /// Registers, and tries again when the server asks for it.
    async fn until_registered(&self, number: u64, phone: &Phone, begin: Instant) -> Result<()> {
        loop {
            let request = self.request(number, phone)?;
            match timeout(ANSWER_MAX, phone.request(&request)).await.context("no response")?? {
                Final { code: 200, .. } => break,
                Final { code: 503, retry_after } => {
                    self.done.borrow_mut().refused += 1;
                    tokio::time::sleep(retry_after.map_or(PAUSE, Duration::from_secs)).await;
                }
                Final { code, .. } => bail!("a phone's request was answered with {code}"),
            }
        }
        self.done.borrow_mut().times.record(begin.elapsed());
        Ok(())
    }

    fn request(&self, number: u64, phone: &Phone) -> Result<Vec<u8>> {
        let cseq = self.cseq.get() + 1;
        self.cseq.set(cseq);
        let address = phone.address()?;
        let user = (number % u64::from(self.part.users.max(1))) as u32;
        let who = Who { slot: number as usize, generation: cseq, user, attempt: 1, address };
        let mut request = Vec::with_capacity(512);
        self.style.register(&mut request, &who, cseq, &[]);
        Ok(request)
    }
}
