//! A load of several processes: a controller gives each its part of the phones, starts all together, and adds
//! up the results. With one process the controller runs the load itself.

use std::rc::Rc;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::child::ChildProcess;

use super::args::Args;
use super::load::Load;
use super::orders::{Reply, obey_all};
use super::outcome::Measured;
use super::session::{measure, open_with_script, register_all, remove_contacts};

/// An order to a process, each a line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// Open all sources: the first order.
    Open(Box<Args>),
    /// Remove all contacts of the phones.
    RemoveContacts,
    /// Register all phones.
    Register,
    /// Measure at a rate, or in a closed loop.
    Measure { rate: Option<f64> },
    /// End what the server would keep: the last order.
    End,
}

/// The place where the phones run.
pub(super) enum Stage {
    Here(Rc<Load>),
    /// Child processes, which end with this value.
    Processes(Vec<ChildProcess>),
}

impl Stage {
    /// Opens all sources.
    pub(super) async fn open(args: &Args) -> Result<Self> {
        if args.processes == 1 {
            return Ok(Self::Here(open_with_script(args).await?));
        }
        let mut processes = Vec::new();
        for number in 0..args.processes {
            let order = Order::Open(Box::new(part(args, number)));
            processes.push(ChildProcess::start("a load process", "sip-part", &order).await?);
        }
        for process in &mut processes {
            done(process).await?;
        }
        Ok(Self::Processes(processes))
    }

    /// Removes all contacts of the phones.
    pub(super) async fn remove_contacts(&mut self, args: &Args) -> Result<()> {
        match self {
            Self::Here(load) => remove_contacts(args, load).await,
            Self::Processes(all) => each(all, |_| Order::RemoveContacts).await.map(|_| ()),
        }
    }

    /// Registers all phones.
    pub(super) async fn register_all(&mut self, args: &Args) -> Result<()> {
        match self {
            Self::Here(load) => register_all(args, load).await,
            Self::Processes(all) => each(all, |_| Order::Register).await.map(|_| ()),
        }
    }

    /// Measures at a rate, or in a closed loop.
    pub(super) async fn measure(&mut self, args: &Args, rate: Option<f64>) -> Result<Measured> {
        match self {
            Self::Here(load) => measure(args, load, rate).await,
            Self::Processes(all) => {
                let count = all.len() as f64;
                each(all, |_| Order::Measure { rate: rate.map(|rate| rate / count) }).await
            }
        }
    }

    /// Ends what the server would keep.
    pub(super) async fn end(mut self) -> Result<()> {
        match &mut self {
            Self::Here(load) => load.end().await,
            Self::Processes(all) => drop(each(all, |_| Order::End).await?),
        }
        Ok(())
    }
}

/// Gives an order to all processes at once.
async fn each(all: &mut [ChildProcess], order: impl Fn(usize) -> Order) -> Result<Measured> {
    for (number, process) in all.iter_mut().enumerate() {
        process.send(&order(number)).await?;
    }
    let mut total = Measured::default();
    for process in all {
        total.merge(&done(process).await?);
    }
    Ok(total)
}

async fn done(process: &mut ChildProcess) -> Result<Measured> {
    process.receive::<Reply<Measured>>().await?.into_result()
}

/// Returns one process's part: its own phones, sources and operations, and addresses if there are enough.
fn part(args: &Args, number: u32) -> Args {
    let processes = args.processes;
    let share = |all: u32| all / processes + u32::from(number < all % processes);
    let before =
        |all: u32| (0..number).map(|other| all / processes + u32::from(other < all % processes)).sum::<u32>();
    let local = args.local();
    let own = local.iter().skip(number as usize).step_by(processes as usize).copied().collect();
    Args {
        users: share(args.users),
        first: args.first + before(args.users),
        sources: Some((share(args.sources() as u32) as usize).max(1)),
        outstanding: (share(args.outstanding as u32) as usize).max(1),
        local: if local.len() >= processes as usize { own } else { local },
        processes: 1,
        serve: false,
        watch: None,
        ..args.clone()
    }
}

/// Runs a process of `strandline load sip --processes`.
///
/// # Errors
/// If communication with the controller fails.
pub(crate) fn run_part() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(31).build()?;
    obey_all(&runtime, obey)
}

async fn obey(stage: &mut Option<(Args, Rc<Load>)>, line: &str) -> Result<Measured> {
    match (serde_json::from_str(line).context("reading a command")?, stage.as_ref()) {
        (Order::Open(args), _) => {
            let load = open_with_script(&args).await?;
            *stage = Some((*args, load));
            Ok(Measured::default())
        }
        (Order::RemoveContacts, Some((args, load))) => {
            remove_contacts(args, load).await.map(|()| Measured::default())
        }
        (Order::Register, Some((args, load))) => register_all(args, load).await.map(|()| Measured::default()),
        (Order::Measure { rate }, Some((args, load))) => measure(args, load, rate).await,
        (Order::End, Some((_, load))) => {
            load.end().await;
            Ok(Measured::default())
        }
        (_, None) => bail!("nothing is open"),
    }
}

#[cfg(test)]
mod tests;
