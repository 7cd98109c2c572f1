//! `strandline sip` with an SQLite file that is damaged, removed or replaced.

use std::path::PathBuf;

use rusqlite::Connection;

use crate::sip_server::Server;
use crate::udp_phone::Phone;
use crate::waiting::at_last;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("strandline-store-file-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("sip.db")
    }

    fn serve(&self, processes: &str) -> Server {
        let file = self.file();
        let store = file.to_str().unwrap();
        Server::start(&["--processes", processes, "--metrics", "127.0.0.1:0", "--store", store])
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn metric(server: &Server, name: &str) -> f64 {
    let page = server.metrics("/metrics");
    let values = page.lines().filter(|line| line.starts_with(name)).filter_map(|line| line.rsplit_once(' '));
    values.filter_map(|(_, value)| value.parse::<f64>().ok()).sum()
}

/// REGISTERs get 503 while the file isn't there, and 200 once it is back.
fn away_and_back(name: &str, processes: &str, replaced: bool) {
    let folder = Folder::new(name);
    let server = folder.serve(processes);
    let mut phone = Phone::new();
    assert!(phone.ask(&server, "alice", "").starts_with("SIP/2.0 200"));
    let away = folder.0.join("away.db");
    std::fs::rename(folder.file(), &away).unwrap();
    if replaced {
        std::fs::write(folder.file(), "").unwrap();
    }
    for user in ["bob", "carol"] {
        let answer = phone.ask(&server, user, "");
        assert!(answer.starts_with("SIP/2.0 503") && answer.contains("\r\nRetry-After: "), "{answer}");
    }
    // The process that the phone came to knows, and the other one hasn't written anything.
    let others = processes.parse::<f64>().unwrap() - 1.0;
    assert_eq!(metric(&server, "strandline_sip_store_working"), others);
    std::fs::rename(&away, folder.file()).unwrap();
    at_last("it is acknowledged", || phone.ask(&server, "bob", "").starts_with("SIP/2.0 200"));
    drop(server);
    assert!(folder.serve(processes).users() >= 2);
}

#[test]
fn a_removed_store_gets_503_until_it_is_back() {
    away_and_back("removed", "1", false);
}

#[test]
fn a_replaced_store_gets_503_until_it_is_back() {
    away_and_back("replaced", "1", true);
}

#[test]
fn a_removed_store_of_two_processes_gets_503() {
    away_and_back("processes", "2", false);
}

/// Four users, each with a row of the journal; the first ones are spoilt by `sql`, and the server starts again.
fn spoilt(name: &str, processes: &str, sql: &str) -> (Folder, Server) {
    let folder = Folder::new(name);
    let mut server = folder.serve(processes);
    // Nothing is folded before it is killed: nobody has to register in between.
    let mut phone = Phone::new();
    for user in ["u1", "u2", "u3", "u4"] {
        assert!(phone.ask(&server, user, "").starts_with("SIP/2.0 200"));
    }
    server.kill();
    let connection = Connection::open(folder.file()).unwrap();
    connection.execute_batch(sql).unwrap();
    drop(connection);
    let server = folder.serve(processes);
    (folder, server)
}

#[test]
fn damaged_and_missing_rows_are_counted_at_start() {
    let sql = "DELETE FROM bindings; DELETE FROM positions; DELETE FROM journal;
               INSERT INTO journal SELECT 1, x'00000000'; INSERT INTO journal SELECT 3, x'ffff';";
    let (_folder, server) = spoilt("rows", "1", sql);
    assert_eq!(metric(&server, "strandline_sip_store_damaged_rows_total"), 2.0);
    assert_eq!(metric(&server, "strandline_sip_store_missing_rows_total"), 1.0);
    assert!(Phone::new().ask(&server, "bob", "").starts_with("SIP/2.0 200"));
}

#[test]
fn damaged_bindings_are_counted_and_the_rest_served() {
    let sql = "INSERT OR REPLACE INTO bindings (aor, state) VALUES (CAST('sip:u9@example.com' AS BLOB), x'78790a');";
    let (_folder, server) = spoilt("bindings", "1", sql);
    assert_eq!(metric(&server, "strandline_sip_store_damaged_rows_total"), 1.0);
    assert_eq!(server.users(), 4);
}

#[test]
fn damaged_rows_of_two_processes_are_counted() {
    let sql = "DELETE FROM worker_journal; INSERT INTO worker_journal VALUES (7, 0, x'ffff')";
    let (_folder, server) = spoilt("workers", "2", sql);
    assert_eq!(metric(&server, "strandline_sip_supervisor_damaged_rows_total"), 1.0);
    // Rows 1 to 6.
    assert_eq!(metric(&server, "strandline_sip_supervisor_missing_rows_total"), 6.0);
}
