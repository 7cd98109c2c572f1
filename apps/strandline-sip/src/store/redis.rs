//! Redis and Valkey.
//!
//! `strandline:nodes` holds the names of the nodes. For each of them, `strandline:node:NAME` is a hash that
//! describes the node, `strandline:bindings:NAME` is a hash of its users, and `strandline:journal:NAME` is a
//! stream with its journal.

use std::collections::HashMap;

use ::redis::{
    Client, Cmd, Connection, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue, RedisError,
    TlsCertificates, Value, cmd,
};
use strandline_tls::Verify;

use super::database::{Database, ENTRIES, Entry, NodeRow, ROWS, Run, read_secret};
use super::folding::User;
use super::{Shared, StoreError};

/// The start of scripts that do nothing unless this run is the node. `KEYS[1]` is the node's hash, and
/// `ARGV[1]` the incarnation.
const IF_HERE: &str = "if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return 0 end ";
const NOW: &str = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) ";

/// A connection to the database.
pub(super) struct Redis {
    connection: Connection,
    replicas_min: u32,
    timeout_ms: u64,
}

fn error(what: &'static str) -> impl FnOnce(RedisError) -> StoreError {
    move |cause| StoreError::new(what, cause)
}

fn key(kind: &str, name: &str) -> String {
    format!("strandline:{kind}:{name}")
}

/// Returns a client that connects with TLS.
fn encrypted(info: ConnectionInfo, verify: &Verify) -> Result<Client, RedisError> {
    let ConnectionAddr::Tcp(host, port) = info.addr().clone() else {
        return Err((ErrorKind::InvalidClientConfig, "store.tls requires a host in store.url").into());
    };
    let insecure = *verify == Verify::Nothing;
    let root_cert = match verify {
        Verify::Nothing => None,
        Verify::Authority(ca) | Verify::Host(ca) => Some(ca.bytes.clone()),
    };
    let address = ConnectionAddr::TcpTls { host, port, insecure, tls_params: None };
    let certificates = TlsCertificates { client_tls: None, root_cert };
    let client = Client::build_with_tls(info.set_addr(address), certificates)?;
    if !matches!(verify, Verify::Authority(_)) {
        return Ok(client);
    }
    // The client keeps the authorities in the address.
    let info = client.get_connection_info().clone();
    let mut address = info.addr().clone();
    address.set_danger_accept_invalid_hostnames(true);
    Client::open(info.set_addr(address))
}

impl Redis {
    fn query<T: FromRedisValue>(&mut self, what: &'static str, command: &Cmd) -> Result<T, StoreError> {
        command.query(&mut self.connection).map_err(error(what))
    }

    /// Runs a script that does nothing unless this run is the node.
    fn script(
        &mut self,
        what: &'static str,
        run: &Run,
        script: &str,
        keys: &[String],
        values: &[&[u8]],
    ) -> Result<bool, StoreError> {
        let mut command = cmd("EVAL");
        command.arg(format!("{IF_HERE}{script} return 1")).arg(keys.len() + 1).arg(key("node", &run.name));
        command.arg(keys).arg(run.incarnation);
        values.iter().for_each(|value| {
            command.arg(*value);
        });
        let done: i64 = self.query(what, &command)?;
        Ok(done == 1)
    }

    /// Waits until enough replicas have the last write.
    fn wait_for_replicas(&mut self) -> Result<(), StoreError> {
        if self.replicas_min == 0 {
            return Ok(());
        }
        let what = "waiting for replicas";
        // A little less than the timeout of a reply.
        let timeout = self.timeout_ms * 3 / 4;
        let have: u32 = self.query(what, cmd("WAIT").arg(self.replicas_min).arg(timeout))?;
        if have < self.replicas_min {
            let cause =
                format!("only {have} replicas acknowledged, and store.replicas_min is {}", self.replicas_min);
            return Err(StoreError::new(what, cause));
        }
        Ok(())
    }

    fn check_durability(&mut self) -> Result<(), StoreError> {
        let what = "Redis";
        let info: String = self.query(what, cmd("INFO").arg("persistence"))?;
        if !info.lines().any(|line| line.trim() == "aof_enabled:1") && self.replicas_min == 0 {
            let cause = "Redis would lose acknowledged bindings: set its appendonly to yes and appendfsync to always, \
                         or set store.replicas_min";
            return Err(StoreError { is_final: true, ..StoreError::new(what, cause) });
        }
        // If the command is not permitted, the policy is unknown.
        let policy = cmd("CONFIG").arg("GET").arg("appendfsync").query::<Vec<String>>(&mut self.connection);
        if policy.is_ok_and(|policy| policy.last().is_some_and(|policy| policy != "always")) {
            tracing::warn!(
                "Redis has appendfsync other than always: bindings of the last second may be lost if its machine fails"
            );
        }
        Ok(())
    }
}

impl Database for Redis {
    fn connect(settings: &Shared) -> Result<Self, StoreError> {
        let what = "connecting to Redis";
        // The parser's error might reveal a password in the URL.
        let wrong = |_| StoreError::new("store.url", "expected a URL such as redis://host:6379/0");
        let mut info: ::redis::ConnectionInfo =
            ::redis::IntoConnectionInfo::into_connection_info(settings.url.as_str()).map_err(wrong)?;
        if let Some(password) = &settings.password {
            let redis = info.redis_settings().clone().set_password(password);
            info = info.set_redis_settings(redis);
        }
        let client = match &settings.tls {
            None => Client::open(info).map_err(wrong)?,
            Some(verify) => encrypted(info, verify).map_err(error(what))?,
        };
        let connection = client.get_connection_with_timeout(settings.timeout).map_err(error(what))?;
        connection.set_read_timeout(Some(settings.timeout)).map_err(error(what))?;
        connection.set_write_timeout(Some(settings.timeout)).map_err(error(what))?;
        let mut opened = Self {
            connection,
            replicas_min: settings.replicas_min,
            timeout_ms: settings.timeout.as_millis() as u64,
        };
        opened.check_durability()?;
        Ok(opened)
    }

    fn nodes(&mut self) -> Result<Vec<NodeRow>, StoreError> {
        let what = "reading the nodes";
        let mut names: Vec<String> = self.query(what, cmd("SMEMBERS").arg("strandline:nodes"))?;
        names.sort_unstable();
        let mut rows = Vec::new();
        for name in names {
            let script = format!(
                "{NOW} local n = redis.call('HMGET', KEYS[1], 'address', 'beat', 'beaten_at', 'trimmed', 'incarnation') \
                 return {{n[1] or '', tonumber(n[2] or -1), now - tonumber(n[3] or 0), tonumber(n[4] or 0), n[5] or '0'}}"
            );
            let row = self.query(what, cmd("EVAL").arg(script).arg(1).arg(key("node", &name)))?;
            let (address, beat, age_ms, trimmed, incarnation) = row;
            rows.push(NodeRow { name, address, beat, age_ms, trimmed, incarnation });
        }
        Ok(rows)
    }

    fn enter(&mut self, run: &Run, address: &str) -> Result<(), StoreError> {
        let script = format!(
            "{NOW} local beat = tonumber(redis.call('HGET', KEYS[1], 'beat') or 0) if beat < 0 then beat = 0 end \
             redis.call('SADD', KEYS[2], ARGV[3]) redis.call('HSET', KEYS[1], 'incarnation', ARGV[1], \
             'address', ARGV[2], 'beat', beat + 1, 'beaten_at', now) redis.call('HSETNX', KEYS[1], 'trimmed', 0)"
        );
        let mut command = cmd("EVAL");
        command.arg(script).arg(2).arg(key("node", &run.name)).arg("strandline:nodes");
        command.arg(run.incarnation).arg(address).arg(&run.name);
        self.query("registering this node", &command)
    }

    fn beat(&mut self, run: &Run, left: bool) -> Result<bool, StoreError> {
        let beat = if left {
            "redis.call('HSET', KEYS[1], 'beat', -1)"
        } else {
            "redis.call('HINCRBY', KEYS[1], 'beat', 1)"
        };
        let script = format!("{NOW} {beat} redis.call('HSET', KEYS[1], 'beaten_at', now)");
        self.script("updating this node's heartbeat", run, &script, &[], &[])
    }

    fn append(&mut self, run: &Run, number: i64, changes: &[u8]) -> Result<bool, StoreError> {
        let script = "redis.call('XADD', KEYS[2], ARGV[2], 'c', ARGV[3])";
        let id = format!("{number}-0");
        let keys = [key("journal", &run.name)];
        let done = self.script("writing bindings", run, script, &keys, &[id.as_bytes(), changes])?;
        self.wait_for_replicas()?;
        Ok(done)
    }

    fn last(&mut self, name: &str) -> Result<i64, StoreError> {
        let what = "reading the journal";
        let journal = key("journal", name);
        // A stream refuses an ID that is not above all earlier ones, also above those of deleted entries.
        let exists: bool = self.query(what, cmd("EXISTS").arg(&journal))?;
        let last = match exists {
            true => {
                let info: HashMap<String, Value> =
                    self.query(what, cmd("XINFO").arg("STREAM").arg(&journal))?;
                info.get("last-generated-id").and_then(|id| number(&String::from_redis_value_ref(id).ok()?))
            }
            false => None,
        };
        let last = last.unwrap_or(0);
        let trimmed: Option<i64> = self.query(what, cmd("HGET").arg(key("node", name)).arg("trimmed"))?;
        Ok(last.max(trimmed.unwrap_or(0)))
    }

    fn fold(&mut self, run: &Run, users: &[User]) -> Result<bool, StoreError> {
        let script = "for i = 2, #ARGV, 2 do if ARGV[i + 1] == '' then redis.call('HDEL', KEYS[2], ARGV[i]) \
                      else redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end end";
        let values: Vec<&[u8]> = users.iter().flat_map(|(aor, state)| [&aor[..], &state[..]]).collect();
        self.script("compacting the journal", run, script, &[key("bindings", &run.name)], &values)
    }

    fn trim(&mut self, name: &str, to: i64) -> Result<(), StoreError> {
        let what = "trimming the journal";
        self.query::<()>(what, cmd("HSET").arg(key("node", name)).arg("trimmed").arg(to))?;
        self.query(what, cmd("XTRIM").arg(key("journal", name)).arg("MINID").arg(format!("{}-0", to + 1)))
    }

    fn bindings(&mut self, name: &str, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        let mut cursor = 0u64;
        loop {
            let mut command = cmd("HSCAN");
            command.arg(key("bindings", name)).arg(cursor).arg("COUNT").arg(ROWS);
            let (next, rows): (u64, Vec<(Vec<u8>, Vec<u8>)>) = self.query("reading bindings", &command)?;
            rows.iter().for_each(|(aor, state)| each(aor, state));
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    fn journal(&mut self, name: &str, after: i64) -> Result<Vec<Entry>, StoreError> {
        let mut command = cmd("XRANGE");
        command.arg(key("journal", name)).arg(format!("{}-0", after + 1)).arg("+").arg("COUNT").arg(ENTRIES);
        let entries: Vec<(String, Vec<Vec<u8>>)> = self.query("reading the journal", &command)?;
        let entry = |(id, mut fields): (String, Vec<Vec<u8>>)| Some((number(&id)?, fields.pop()?));
        Ok(entries.into_iter().filter_map(entry).collect())
    }

    fn secret(&mut self, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        let what = "a secret in the store";
        self.query::<()>(what, cmd("HSETNX").arg("strandline:secrets").arg(name).arg(&fresh[..]))?;
        let value: Vec<u8> = self.query(what, cmd("HGET").arg("strandline:secrets").arg(name))?;
        read_secret(name, &value)
    }
}

/// The number in an entry's ID.
fn number(id: &str) -> Option<i64> {
    id.split('-').next()?.parse().ok()
}
