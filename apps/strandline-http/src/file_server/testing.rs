//! A server on loopback sockets, for tests.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Args, bind};
use crate::files::testing::Folder;
use crate::front::log::AccessLog;
use crate::front::{Handler, Listening, Shards};

#[derive(Debug, Parser)]
pub(super) struct Program {
    #[command(flatten)]
    pub(super) args: Args,
}

/// Writes a certificate for localhost and its key. Returns the files.
pub(crate) fn certificate(folder: &Folder) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let write = |name: &str, text: String| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    (write("cert.pem", made.cert.pem()), write("key.pem", made.signing_key.serialize_pem()))
}

pub(crate) struct Running {
    folder: Folder,
    pub(super) listening: Listening,
    log: Arc<AccessLog>,
    signals: watch::Sender<u32>,
    ended: JoinHandle<Result<()>>,
}

impl Running {
    /// Serves a page, and a file that doesn't fit any buffer.
    pub(crate) async fn start(more: &[&str]) -> Self {
        let folder = Folder::new("server");
        let site = folder.path().join("site");
        fs::create_dir(&site).unwrap();
        fs::write(site.join("index.html"), "<h1>hello</h1>").unwrap();
        fs::write(site.join("large"), vec![7; 20 << 20]).unwrap();
        let log = folder.path().join("log");
        let paths = ["program", site.to_str().unwrap(), "--access-log", log.to_str().unwrap()];
        let local = ["--listen", "127.0.0.1:0", "--encapsulation", "127.0.0.1:0", "--sctp", "0"];
        let arguments = paths.iter().chain(&local).chain(more);
        let args = Program::try_parse_from(arguments).unwrap().args;
        let (front, site) = bind(&args, Shards::current()).await.unwrap();
        let listening = front.listening.clone();
        let (signals, told) = watch::channel(0);
        let log = Arc::clone(site.access_log().unwrap());
        Self { folder, listening, log, signals, ended: tokio::spawn(front.run(site, told)) }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn tcp_port(&self) -> u16 {
        self.listening.tcp.port()
    }

    pub(crate) fn sctp_port(&self) -> u16 {
        self.listening.sctp.unwrap()
    }

    pub(crate) fn udp_port(&self) -> u16 {
        self.listening.encapsulation.unwrap().port()
    }

    pub(crate) fn log(&self) -> String {
        assert!(self.log.flush(Duration::from_secs(60)));
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    pub(super) fn signal_end(&self) {
        self.signals.send_replace(1);
    }

    /// Tells the server to end for the second time.
    pub(super) fn signal_again(&self) {
        self.signals.send_replace(2);
    }

    /// Waits for the end.
    pub(super) async fn ended(&mut self) {
        (&mut self.ended).await.unwrap().unwrap();
    }

    /// Ends the server, and returns its access log.
    pub(crate) async fn end(self) -> String {
        self.signal_end();
        self.ended.await.unwrap().unwrap();
        assert!(self.log.flush(Duration::from_secs(60)));
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}
