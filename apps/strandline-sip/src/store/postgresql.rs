//! PostgreSQL.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls};

use super::database::{Database, ENTRIES, Entry, NodeRow, ROWS, Run, SubscriberRow, read_secret};
use super::folding::User;
use super::postgresql_tls::Connector;
use super::{Shared, StoreError};

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS sip_nodes (name text PRIMARY KEY, address text NOT NULL, incarnation bigint NOT NULL,
        beat bigint NOT NULL, beaten_at timestamptz NOT NULL, trimmed bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS sip_bindings (node text NOT NULL, aor bytea NOT NULL, state bytea NOT NULL,
        PRIMARY KEY (node, aor));
    CREATE TABLE IF NOT EXISTS sip_journal (node text NOT NULL, number bigint NOT NULL, changes bytea NOT NULL,
        PRIMARY KEY (node, number));
    CREATE TABLE IF NOT EXISTS sip_secrets (name text PRIMARY KEY, value bytea NOT NULL);
    CREATE TABLE IF NOT EXISTS sip_subscribers (username text NOT NULL, domain text NOT NULL, password text,
        md5 text, sha256 text, sha512_256 text, PRIMARY KEY (username, domain));";
/// An arbitrary lock number. It serialises the creation of tables by nodes that start at once.
const LOCK: &str = "SELECT pg_advisory_xact_lock(5060506050605060)";

/// A connection, with a runtime that runs only during queries.
pub(super) struct PostgreSql {
    runtime: Runtime,
    client: Client,
    task: JoinHandle<()>,
    timeout: Duration,
}

impl Drop for PostgreSql {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn failed(what: &str, error: &tokio_postgres::Error) -> StoreError {
    // The message of the server is in the error's source.
    let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), |cause| cause.to_string());
    StoreError::new(what, cause)
}

async fn in_time<T>(
    what: &str,
    timeout: Duration,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(timeout, answer).await {
        Ok(answer) => answer.map_err(|error| failed(what, &error)),
        Err(_) => Err(StoreError::new(what, format!("no answer within {} ms", timeout.as_millis()))),
    }
}

/// Drives a connection until it ends.
async fn drive(connection: impl Future<Output = Result<(), tokio_postgres::Error>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "PostgreSQL connection failed");
    }
}

impl PostgreSql {
    pub(super) fn open(settings: &Shared) -> Result<Self, StoreError> {
        // The parser's error might reveal a password in the URL.
        let mut config: Config = settings.url.parse().map_err(|_| {
            StoreError::new("store.url", "expected a URL such as postgresql://user@host:5432/database")
        })?;
        config.connect_timeout(settings.timeout);
        if let Some(password) = &settings.password {
            config.password(password);
        }
        let what = "connecting to PostgreSQL";
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::new(what, error))?;
        let timeout = settings.timeout;
        let (client, task) = if let Some(verify) = &settings.tls {
            config.ssl_mode(SslMode::Require);
            let tls = Connector::new(verify).map_err(|error| StoreError::new(what, error))?;
            let (client, connection) = runtime.block_on(in_time(what, timeout, config.connect(tls)))?;
            (client, runtime.spawn(drive(connection)))
        } else {
            config.ssl_mode(SslMode::Disable);
            let (client, connection) = runtime.block_on(in_time(what, timeout, config.connect(NoTls)))?;
            (client, runtime.spawn(drive(connection)))
        };
        Ok(Self { runtime, client, task, timeout })
    }

    fn run<'a, T, F>(
        &'a mut self,
        what: &str,
        query: impl FnOnce(&'a mut Client) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, tokio_postgres::Error>> + 'a,
    {
        let answer = query(&mut self.client);
        self.runtime.block_on(in_time(what, self.timeout, answer))
    }

    /// All rows of these users, in any domain.
    pub(super) fn subscribers(&mut self, users: &[&[u8]]) -> Result<Vec<SubscriberRow>, StoreError> {
        // A name that isn't valid UTF-8 can't be in the table.
        let users: Vec<String> =
            users.iter().filter_map(|user| String::from_utf8(user.to_vec()).ok()).collect();
        self.run("reading subscribers", |client| async move {
            let select = "SELECT username, domain, password, md5, sha256, sha512_256 FROM sip_subscribers \
                          WHERE username = ANY($1)";
            let rows = client.query(select, &[&users]).await?;
            let column = |row: &tokio_postgres::Row, at: usize| {
                row.try_get::<_, Option<String>>(at).map(|text| text.map(String::into_bytes))
            };
            let row = |row: &tokio_postgres::Row| {
                let (user, domain): (String, String) = (row.try_get(0)?, row.try_get(1)?);
                let secrets = [column(row, 2)?, column(row, 3)?, column(row, 4)?, column(row, 5)?];
                Ok((user.into_bytes(), domain.into_bytes(), secrets))
            };
            rows.iter().map(row).collect()
        })
    }
}

impl Database for PostgreSql {
    fn connect(settings: &Shared) -> Result<Self, StoreError> {
        let mut opened = Self::open(settings)?;
        opened.run("creating tables in PostgreSQL", |client| async move {
            let transaction = client.transaction().await?;
            transaction.batch_execute(LOCK).await?;
            transaction.batch_execute(TABLES).await?;
            transaction.commit().await
        })?;
        Ok(opened)
    }

    fn nodes(&mut self) -> Result<Vec<NodeRow>, StoreError> {
        self.run("reading the nodes", |client| async move {
            let select = "SELECT name, address, beat, \
                          (extract(epoch FROM clock_timestamp() - beaten_at) * 1000)::bigint, trimmed, \
                          incarnation FROM sip_nodes ORDER BY name";
            let rows = client.query(select, &[]).await?;
            let node = |row: &tokio_postgres::Row| {
                Ok(NodeRow {
                    name: row.try_get(0)?,
                    address: row.try_get(1)?,
                    beat: row.try_get(2)?,
                    age_ms: row.try_get(3)?,
                    trimmed: row.try_get(4)?,
                    incarnation: row.try_get(5)?,
                })
            };
            rows.iter().map(node).collect()
        })
    }

    fn enter(&mut self, run: &Run, address: &str) -> Result<(), StoreError> {
        self.run("registering this node", |client| async move {
            let insert = "INSERT INTO sip_nodes AS n (name, address, incarnation, beat, beaten_at, trimmed) \
                          VALUES ($1, $2, $3, 1, clock_timestamp(), 0) ON CONFLICT (name) DO UPDATE SET \
                          address = excluded.address, incarnation = excluded.incarnation, \
                          beat = greatest(n.beat, 0) + 1, beaten_at = clock_timestamp()";
            client.execute(insert, &[&run.name, &address, &run.incarnation]).await.map(|_| ())
        })
    }

    fn beat(&mut self, run: &Run, left: bool) -> Result<bool, StoreError> {
        self.run("updating this node's heartbeat", |client| async move {
            let update = "UPDATE sip_nodes SET beat = CASE WHEN $3 THEN -1 ELSE beat + 1 END, \
                          beaten_at = clock_timestamp() WHERE name = $1 AND incarnation = $2";
            Ok(client.execute(update, &[&run.name, &run.incarnation, &left]).await? > 0)
        })
    }

    fn append(&mut self, run: &Run, number: i64, changes: &[u8]) -> Result<bool, StoreError> {
        self.run("writing bindings", |client| async move {
            let insert = "INSERT INTO sip_journal (node, number, changes) \
                          SELECT name, $3, $4 FROM sip_nodes WHERE name = $1 AND incarnation = $2";
            Ok(client.execute(insert, &[&run.name, &run.incarnation, &number, &changes]).await? > 0)
        })
    }

    fn last(&mut self, name: &str) -> Result<i64, StoreError> {
        self.run("reading the journal", |client| async move {
            let select = "SELECT greatest((SELECT max(number) FROM sip_journal WHERE node = $1), \
                          (SELECT trimmed FROM sip_nodes WHERE name = $1), 0)";
            client.query_one(select, &[&name]).await?.try_get(0)
        })
    }

    fn fold(&mut self, run: &Run, users: &[User]) -> Result<bool, StoreError> {
        self.run("compacting the journal", |client| async move {
            let transaction = client.transaction().await?;
            let select = "SELECT 1 FROM sip_nodes WHERE name = $1 AND incarnation = $2 FOR SHARE";
            if transaction.query_opt(select, &[&run.name, &run.incarnation]).await?.is_none() {
                return Ok(false);
            }
            let (gone, kept): (Vec<&User>, Vec<&User>) =
                users.iter().partition(|(_, state)| state.is_empty());
            let aors = |users: &[&User]| users.iter().map(|(aor, _)| aor.to_vec()).collect::<Vec<_>>();
            let states: Vec<&[u8]> = kept.iter().map(|(_, state)| &state[..]).collect();
            let insert = "INSERT INTO sip_bindings (node, aor, state) \
                          SELECT $1, * FROM unnest($2::bytea[], $3::bytea[]) \
                          ON CONFLICT (node, aor) DO UPDATE SET state = excluded.state";
            transaction.execute(insert, &[&run.name, &aors(&kept), &states]).await?;
            let delete = "DELETE FROM sip_bindings WHERE node = $1 AND aor = ANY($2)";
            transaction.execute(delete, &[&run.name, &aors(&gone)]).await?;
            transaction.commit().await?;
            Ok(true)
        })
    }

    fn trim(&mut self, name: &str, to: i64) -> Result<(), StoreError> {
        self.run("trimming the journal", |client| async move {
            let update = "UPDATE sip_nodes SET trimmed = $2 WHERE name = $1";
            client.execute(update, &[&name, &to]).await?;
            let delete = "DELETE FROM sip_journal WHERE node = $1 AND number <= $2";
            client.execute(delete, &[&name, &to]).await.map(|_| ())
        })
    }

    /// Uses a portal, so that the server plans once and scans the table once.
    fn bindings(&mut self, name: &str, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        let (what, timeout, client) = ("reading bindings", self.timeout, &mut self.client);
        let failed = |error| failed(what, &error);
        self.runtime.block_on(async {
            let transaction = in_time(what, timeout, client.transaction()).await?;
            let select = "SELECT aor, state FROM sip_bindings WHERE node = $1";
            let select = in_time(what, timeout, transaction.prepare(select)).await?;
            let portal = in_time(what, timeout, transaction.bind(&select, &[&name])).await?;
            loop {
                let rows = in_time(what, timeout, transaction.query_portal(&portal, ROWS as i32)).await?;
                for row in &rows {
                    each(row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
                }
                if rows.len() < ROWS {
                    return in_time(what, timeout, transaction.commit()).await;
                }
            }
        })
    }

    fn journal(&mut self, name: &str, after: i64) -> Result<Vec<Entry>, StoreError> {
        self.run("reading the journal", |client| async move {
            let select = format!(
                "SELECT number, changes FROM sip_journal WHERE node = $1 AND number > $2 ORDER BY number LIMIT {ENTRIES}"
            );
            let rows = client.query(&select, &[&name, &after]).await?;
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
        })
    }

    fn secret(&mut self, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        let value: Vec<u8> = self.run("a secret in the store", |client| async move {
            let insert = "INSERT INTO sip_secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
            client.execute(insert, &[&name, &&fresh[..]]).await?;
            client.query_one("SELECT value FROM sip_secrets WHERE name = $1", &[&name]).await?.try_get(0)
        })?;
        read_secret(name, &value)
    }
}
