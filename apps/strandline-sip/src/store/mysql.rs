//! MariaDB and MySQL.

use ::mysql::prelude::Queryable;
use ::mysql::{Conn, Opts, OptsBuilder, Params, SslOpts, TxOpts, Value};
use strandline_tls::Verify;

use super::database::{Database, ENTRIES, Entry, NodeRow, ROWS, Run, SubscriberRow, read_secret};
use super::folding::User;
use super::{Shared, StoreError};

/// Number of users written with one statement.
const USERS: usize = 250;

const TABLES: [&str; 5] = [
    "CREATE TABLE IF NOT EXISTS sip_nodes (name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, \
     address VARCHAR(255) NOT NULL, incarnation BIGINT NOT NULL, beat BIGINT NOT NULL, \
     beaten_at DATETIME(3) NOT NULL, trimmed BIGINT NOT NULL) ENGINE = InnoDB",
    "CREATE TABLE IF NOT EXISTS sip_bindings (node VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, \
     aor VARBINARY(512) NOT NULL, state LONGBLOB NOT NULL, PRIMARY KEY (node, aor)) ENGINE = InnoDB",
    "CREATE TABLE IF NOT EXISTS sip_journal (node VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, \
     number BIGINT NOT NULL, changes LONGBLOB NOT NULL, PRIMARY KEY (node, number)) ENGINE = InnoDB",
    "CREATE TABLE IF NOT EXISTS sip_secrets (name VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, \
     value VARBINARY(64) NOT NULL) ENGINE = InnoDB",
    "CREATE TABLE IF NOT EXISTS sip_subscribers (username VARBINARY(255) NOT NULL, domain VARBINARY(255) NOT NULL, \
     password VARBINARY(255), md5 VARBINARY(64), sha256 VARBINARY(64), sha512_256 VARBINARY(64), \
     PRIMARY KEY (username, domain)) ENGINE = InnoDB",
];

/// A connection to the database.
pub(super) struct MySql {
    connection: Conn,
}

fn error(what: &'static str) -> impl FnOnce(::mysql::Error) -> StoreError {
    move |cause| StoreError::new(what, cause)
}

fn options(settings: &Shared) -> Result<Opts, StoreError> {
    // The parser's error might reveal a password in the URL.
    let options = Opts::from_url(&settings.url).map_err(|_| {
        StoreError::new("store.url", "expected a URL such as mysql://user@host:3306/database")
    })?;
    let mut builder = OptsBuilder::from_opts(options)
        .prefer_socket(false)
        .tcp_connect_timeout(Some(settings.timeout))
        .read_timeout(Some(settings.timeout))
        .write_timeout(Some(settings.timeout))
        .init(vec!["SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned()]);
    if let Some(password) = &settings.password {
        builder = builder.pass(Some(password));
    }
    if let Some(verify) = &settings.tls {
        builder = builder.ssl_opts(Some(tls(verify)));
    }
    Ok(builder.into())
}

/// The client trusts public authorities too. For one host that is harmless; for any host, anybody can have a
/// certificate, which is why the configuration refuses that.
fn tls(verify: &Verify) -> SslOpts {
    match verify {
        Verify::Nothing | Verify::Authority(_) => SslOpts::default().with_danger_accept_invalid_certs(true),
        Verify::Host(ca) => SslOpts::default().with_root_cert_path(Some(ca.path.clone())),
    }
}

impl MySql {
    pub(super) fn open(settings: &Shared) -> Result<Self, StoreError> {
        let connection = Conn::new(options(settings)?).map_err(error("connecting to MySQL"))?;
        Ok(Self { connection })
    }

    /// All rows of these users, in any domain.
    pub(super) fn subscribers(&mut self, users: &[&[u8]]) -> Result<Vec<SubscriberRow>, StoreError> {
        let places = vec!["?"; users.len()].join(", ");
        let select = format!(
            "SELECT username, domain, password, md5, sha256, sha512_256 FROM sip_subscribers \
             WHERE username IN ({places})"
        );
        let values = Params::Positional(users.iter().map(|user| Value::from(*user)).collect());
        let row =
            |(user, domain, password, md5, sha256, sha512)| (user, domain, [password, md5, sha256, sha512]);
        self.connection.exec_map(select, values, row).map_err(error("reading subscribers"))
    }
}

fn is_there(run: &Run) -> Params {
    Params::Positional(vec![run.name.as_str().into(), run.incarnation.into()])
}

fn fold(
    transaction: &mut ::mysql::Transaction<'_>,
    run: &Run,
    users: &[User],
) -> Result<bool, ::mysql::Error> {
    let select = "SELECT 1 FROM sip_nodes WHERE name = ? AND incarnation = ? LOCK IN SHARE MODE";
    let here: Option<i64> = transaction.exec_first(select, is_there(run))?;
    if here.is_none() {
        return Ok(false);
    }
    let (gone, kept): (Vec<&User>, Vec<&User>) = users.iter().partition(|(_, state)| state.is_empty());
    for some in kept.chunks(USERS) {
        let places = vec!["(?, ?, ?)"; some.len()].join(", ");
        let replace = format!(
            "INSERT INTO sip_bindings (node, aor, state) VALUES {places} ON DUPLICATE KEY UPDATE state = VALUES(state)"
        );
        let values = some.iter().flat_map(|(aor, state)| {
            [Value::from(run.name.as_str()), Value::from(&aor[..]), Value::from(&state[..])]
        });
        transaction.exec_drop(replace, Params::Positional(values.collect()))?;
    }
    for some in gone.chunks(USERS) {
        let places = vec!["?"; some.len()].join(", ");
        let delete = format!("DELETE FROM sip_bindings WHERE node = ? AND aor IN ({places})");
        let mut values = vec![Value::from(run.name.as_str())];
        values.extend(some.iter().map(|(aor, _)| Value::from(&aor[..])));
        transaction.exec_drop(delete, Params::Positional(values))?;
    }
    Ok(true)
}

impl Database for MySql {
    fn connect(settings: &Shared) -> Result<Self, StoreError> {
        let mut opened = Self::open(settings)?;
        for table in TABLES {
            opened.connection.query_drop(table).map_err(error("creating tables in MySQL"))?;
        }
        Ok(opened)
    }

    fn nodes(&mut self) -> Result<Vec<NodeRow>, StoreError> {
        let select = "SELECT name, address, beat, \
                      TIMESTAMPDIFF(MICROSECOND, beaten_at, NOW(3)) DIV 1000, trimmed, incarnation FROM sip_nodes ORDER BY name";
        let row = |(name, address, beat, age_ms, trimmed, incarnation)| NodeRow {
            name,
            address,
            beat,
            age_ms,
            trimmed,
            incarnation,
        };
        self.connection.query_map(select, row).map_err(error("reading the nodes"))
    }

    fn enter(&mut self, run: &Run, address: &str) -> Result<(), StoreError> {
        let insert = "INSERT INTO sip_nodes (name, address, incarnation, beat, beaten_at, trimmed) \
                      VALUES (?, ?, ?, 1, NOW(3), 0) ON DUPLICATE KEY UPDATE address = VALUES(address), \
                      incarnation = VALUES(incarnation), beat = GREATEST(beat, 0) + 1, beaten_at = NOW(3)";
        let values = (run.name.as_str(), address, run.incarnation);
        self.connection.exec_drop(insert, values).map_err(error("registering this node"))
    }

    fn beat(&mut self, run: &Run, left: bool) -> Result<bool, StoreError> {
        let beat = if left { "-1" } else { "beat + 1" };
        let update = format!(
            "UPDATE sip_nodes SET beat = {beat}, beaten_at = NOW(3) WHERE name = ? AND incarnation = ?"
        );
        self.connection.exec_drop(update, is_there(run)).map_err(error("updating this node's heartbeat"))?;
        Ok(self.connection.affected_rows() > 0)
    }

    fn append(&mut self, run: &Run, number: i64, changes: &[u8]) -> Result<bool, StoreError> {
        let insert = "INSERT INTO sip_journal (node, number, changes) \
                      SELECT name, ?, ? FROM sip_nodes WHERE name = ? AND incarnation = ?";
        let values = (number, changes, run.name.as_str(), run.incarnation);
        self.connection.exec_drop(insert, values).map_err(error("writing bindings"))?;
        Ok(self.connection.affected_rows() > 0)
    }

    fn last(&mut self, name: &str) -> Result<i64, StoreError> {
        let select = "SELECT GREATEST(COALESCE((SELECT MAX(number) FROM sip_journal WHERE node = ?), 0), \
                      COALESCE((SELECT trimmed FROM sip_nodes WHERE name = ?), 0))";
        let last = self.connection.exec_first(select, (name, name)).map_err(error("reading the journal"))?;
        Ok(last.unwrap_or(0))
    }

    fn fold(&mut self, run: &Run, users: &[User]) -> Result<bool, StoreError> {
        let what = "compacting the journal";
        let mut transaction = self.connection.start_transaction(TxOpts::default()).map_err(error(what))?;
        let done = fold(&mut transaction, run, users).map_err(error(what))?;
        transaction.commit().map_err(error(what))?;
        Ok(done)
    }

    fn trim(&mut self, name: &str, to: i64) -> Result<(), StoreError> {
        let what = "trimming the journal";
        let update = "UPDATE sip_nodes SET trimmed = ? WHERE name = ?";
        self.connection.exec_drop(update, (to, name)).map_err(error(what))?;
        let delete = "DELETE FROM sip_journal WHERE node = ? AND number <= ?";
        self.connection.exec_drop(delete, (name, to)).map_err(error(what))
    }

    fn bindings(&mut self, name: &str, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        let select = format!(
            "SELECT aor, state FROM sip_bindings WHERE node = ? AND aor > ? ORDER BY aor LIMIT {ROWS}"
        );
        let mut after = Vec::new();
        loop {
            let rows: Vec<(Vec<u8>, Vec<u8>)> =
                self.connection.exec(&select, (name, &after)).map_err(error("reading bindings"))?;
            rows.iter().for_each(|(aor, state)| each(aor, state));
            let count = rows.len();
            match rows.into_iter().next_back() {
                Some((aor, _)) if count == ROWS => after = aor,
                _ => return Ok(()),
            }
        }
    }

    fn journal(&mut self, name: &str, after: i64) -> Result<Vec<Entry>, StoreError> {
        let select = format!(
            "SELECT number, changes FROM sip_journal WHERE node = ? AND number > ? ORDER BY number LIMIT {ENTRIES}"
        );
        self.connection.exec(select, (name, after)).map_err(error("reading the journal"))
    }

    fn secret(&mut self, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        let what = "a secret in the store";
        let insert = "INSERT IGNORE INTO sip_secrets (name, value) VALUES (?, ?)";
        self.connection.exec_drop(insert, (name, &fresh[..])).map_err(error(what))?;
        let select = "SELECT value FROM sip_secrets WHERE name = ?";
        let value: Option<Vec<u8>> = self.connection.exec_first(select, (name,)).map_err(error(what))?;
        let value = value.unwrap_or_default();
        read_secret(name, &value)
    }
}
