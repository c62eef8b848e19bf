//! Names to addresses, by the machine's own resolver configuration and hosts file; no search domains.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::system_conf;
use tokio::time::timeout;

use crate::HostName;
use crate::gateway::failure::Failure;

const CONFIG: &str = "/etc/resolv.conf";
const HOSTS: &str = "/etc/hosts";
/// How old the knowledge of these files may be.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// One question to one server, and how often.
const PATIENCE: Duration = Duration::from_secs(2);
const ATTEMPTS: usize = 2;
/// One lookup, whatever it takes.
const LOOKUP: Duration = Duration::from_secs(4);
/// A name that does not exist may be made in the next moment.
const REMEMBER_FAILURE: Duration = Duration::from_secs(5);
/// Questions under way at once.
const QUESTIONS: usize = 1024;
/// More addresses of a name are not looked at.
const ADDRESSES: usize = 32;

/// Which addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// The machine's resolver, made anew when its configuration changes (a laptop moves to another network).
#[derive(Debug, Default)]
pub(super) struct Resolver {
    current: Mutex<Option<Current>>,
}

#[derive(Debug)]
struct Current {
    resolver: Arc<TokioResolver>,
    files: Stamps,
    looked: Instant,
}

/// What changes when one of the files does: device, inode, size, time.
type Stamps = [Option<(u64, u64, u64, i64, i64)>; 2];

impl Resolver {
    /// The addresses of a name in one family; none is no error.
    pub(super) async fn addresses(
        &self,
        name: &HostName,
        family: Family,
    ) -> Result<Vec<IpAddr>, Failure> {
        let unresolved = |error: &NetError| {
            let reason = format!("{name} has no address: {error}");
            let late = matches!(error, NetError::Timeout);
            Failure { reason, late }
        };
        let resolver = self.current().map_err(|error| unresolved(&error))?;
        let mut asked =
            Name::from_ascii(name.as_str()).map_err(|error| unresolved(&error.into()))?;
        asked.set_fqdn(true);
        let kind = match family {
            Family::V4 => RecordType::A,
            Family::V6 => RecordType::AAAA,
        };
        let lookup = match timeout(LOOKUP, resolver.lookup(asked, kind)).await {
            Ok(Ok(lookup)) => lookup,
            Ok(Err(NetError::Dns(DnsError::NoRecordsFound(none)))) => {
                return match none.response_code {
                    ResponseCode::NoError => Ok(Vec::new()),
                    ResponseCode::NXDomain => Err(Failure::new(format!("{name} does not exist"))),
                    code => Err(Failure::new(format!(
                        "{name} has no address: the name server says {code}"
                    ))),
                };
            }
            Ok(Err(error)) => return Err(unresolved(&error)),
            Err(_) => {
                return Err(Failure::late(format!(
                    "{name} has no address: no name server answered within {} s",
                    LOOKUP.as_secs()
                )));
            }
        };
        Ok(lookup
            .answers()
            .iter()
            .filter_map(|record| match &record.data {
                RData::A(address) => Some(IpAddr::V4(address.0)),
                RData::AAAA(address) => Some(IpAddr::V6(address.0)),
                _ => None,
            })
            .take(ADDRESSES)
            .collect())
    }

    fn current(&self) -> Result<Arc<TokioResolver>, NetError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(current) = current.as_mut() {
            if now.duration_since(current.looked) < LOOK_AGAIN {
                return Ok(Arc::clone(&current.resolver));
            }
            current.looked = now;
            if current.files == stamps() {
                return Ok(Arc::clone(&current.resolver));
            }
        }
        let files = stamps();
        let resolver = Arc::new(build()?);
        *current = Some(Current {
            resolver: Arc::clone(&resolver),
            files,
            looked: now,
        });
        Ok(resolver)
    }
}

fn stamps() -> Stamps {
    [CONFIG, HOSTS].map(|path| {
        let meta = Path::new(path).metadata().ok()?;
        Some((
            meta.dev(),
            meta.ino(),
            meta.size(),
            meta.mtime(),
            meta.mtime_nsec(),
        ))
    })
}

fn build() -> Result<TokioResolver, NetError> {
    // As resolv.conf(5): without a server, the one of this machine.
    let (servers, mut options) = system_conf::read_system_conf().map_or_else(
        |_| {
            let server = NameServerConfig::udp_and_tcp(IpAddr::from([127, 0, 0, 1]));
            (vec![server], ResolverOpts::default())
        },
        |(config, options)| (config.name_servers().to_vec(), options),
    );
    options.timeout = options.timeout.min(PATIENCE);
    options.attempts = options.attempts.min(ATTEMPTS);
    options.negative_max_ttl = Some(REMEMBER_FAILURE);
    options.max_active_requests = QUESTIONS;
    options.use_hosts_file = ResolveHosts::Always;
    options.try_tcp_on_error = true;
    let config = ResolverConfig::from_parts(None, Vec::new(), servers);
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        .with_options(options)
        .build()
}
