//! A server of two processes with `[admin]`, and its configuration in a folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::sip_server::{PROGRAM, Server};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The server and its folder, which are removed when this value is dropped.
pub struct World {
    pub folder: PathBuf,
    pub server: Server,
}

impl World {
    /// Starts the server with additional tables in the configuration.
    pub fn new(test: &str, more: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("strandline-processes-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("token"), TOKEN).unwrap();
        Self::write(&folder, more);
        let server = Server::configured(&folder.join("sip.toml"));
        Self { folder, server }
    }

    /// Writes a configuration with these additional tables, which applies once it is loaded. Its time-outs are
    /// long, because tests keep disks and processors busy.
    pub fn write(folder: &Path, more: &str) {
        let listen = |protocol| format!("[[listen]]\nprotocol = \"{protocol}\"\naddress = \"127.0.0.1:0\"\n");
        let (udp, tcp, folder_name) = (listen("udp"), listen("tcp"), folder.display());
        let text = format!(
            "domains = [\"example.com\"]\n{udp}{tcp}[server]\nprocesses = 2\n[metrics]\naddress = \"127.0.0.1:0\"\n\
             [admin]\naddress = \"127.0.0.1:0\"\ntoken = \"{folder_name}/token\"\n\
             [overload]\nwait_ms_max = 250\n[store]\npath = \"{folder_name}/sip.db\"\ntimeout_ms = 30000\n{more}"
        );
        Self::write_all(folder, &text);
    }

    /// Writes the text as it is; it may be no configuration.
    pub fn write_all(folder: &Path, text: &str) {
        std::fs::write(folder.join("sip.toml"), text).unwrap();
    }

    pub fn admin(&self, arguments: &str) -> Output {
        let token = self.folder.join("token");
        Command::new(PROGRAM)
            .args(["sip", "admin", "--json", "--address", self.server.admin(), "--token"])
            .arg(token)
            .args(arguments.split_whitespace())
            .output()
            .unwrap()
    }

    pub fn told(&self, arguments: &str) -> Value {
        let output = self.admin(arguments);
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
