//! `SHOW CONFIG`: every setting with its value and its default.

use super::admin::{Table, text};
use crate::config::{Config, Listen, Pooling};
use std::time::Duration;

pub(super) fn show_config(config: &Config) -> Table {
    let usual = Config::default();
    let rows =
        settings(config)
            .into_iter()
            .zip(settings(&usual))
            .map(|((name, value), (_, default))| {
                let changeable = if name == "listen" { "no" } else { "yes" };
                vec![text(name), Some(value), Some(default), text(changeable)]
            });
    Table {
        columns: &["key", "value", "default", "changeable"],
        rows: rows.collect(),
    }
}

/// Every setting that is no secret.
fn settings(config: &Config) -> Vec<(&'static str, String)> {
    let time = |limit: Duration| format!("{}ms", limit.as_millis());
    let limit = |limit: Option<Duration>| limit.map_or_else(|| "off".to_owned(), time);
    let listen: Vec<String> = config.listen.iter().map(Listen::to_string).collect();
    vec![
        ("listen", listen.join(", ")),
        ("mode", pooling_name(config.pooling).to_owned()),
        (
            "session_state",
            format!("{:?}", config.session_state).to_lowercase(),
        ),
        ("auth", format!("{:?}", config.auth).to_lowercase()),
        ("auth_user", config.lookup.user.clone().unwrap_or_default()),
        (
            "auth_query",
            config.lookup.query.clone().unwrap_or_default(),
        ),
        (
            "auth_dbname",
            config.lookup.database.clone().unwrap_or_default(),
        ),
        ("pool_size", config.pool_size.to_string()),
        ("min_pool_size", config.min_pool_size.to_string()),
        ("reserve_pool_size", config.reserve_pool_size.to_string()),
        ("reserve_pool_wait", time(config.reserve_pool_wait)),
        (
            "max_server_connections",
            config.max_server_connections.to_string(),
        ),
        (
            "max_server_connections_per_server",
            config.max_server_connections_per_server.to_string(),
        ),
        (
            "max_server_connections_per_user",
            config.max_server_connections_per_user.to_string(),
        ),
        (
            "max_server_connections_per_database",
            config.max_server_connections_per_database.to_string(),
        ),
        ("max_clients", config.max_clients.to_string()),
        ("max_waiting", config.max_waiting.to_string()),
        ("max_prepared", config.max_prepared.to_string()),
        ("wait_limit", limit(config.wait_limit)),
        ("login_limit", time(config.login_limit)),
        ("connect_limit", time(config.connect_limit)),
        ("retry_pause", time(config.retry_pause)),
        ("server_idle_limit", limit(config.server_idle_limit)),
        ("server_lifetime", limit(config.server_lifetime)),
        (
            "idle_transaction_limit",
            limit(config.idle_transaction_limit),
        ),
        ("client_idle_limit", limit(config.client_idle_limit)),
        ("query_limit", limit(config.query_limit)),
        ("transaction_limit", limit(config.transaction_limit)),
        ("wait_notice", limit(config.wait_notice)),
        ("server_fast_close", config.server_fast_close.to_string()),
        ("stop_limit", time(config.stop_limit)),
        (
            "busy_poll",
            config.busy_poll.map_or_else(
                || "off".to_owned(),
                |limit| format!("{}us", limit.as_micros()),
            ),
        ),
        ("reset_query", config.reset_query.clone()),
        ("ignored_parameters", config.ignored_parameters.join(", ")),
        ("admin_users", config.admin_users.join(", ")),
        ("stats_users", config.stats_users.join(", ")),
    ]
}

pub(super) fn pooling_name(pooling: Pooling) -> &'static str {
    match pooling {
        Pooling::Session => "session",
        Pooling::Transaction => "transaction",
        Pooling::Statement => "statement",
    }
}
