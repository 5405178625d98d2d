#include "proto/egress_proto.h"

ATOLL_MSG_DESC(atoll_em_error, ATOLL_MSG_FIELD(U32, atoll_em_error, kind),
               ATOLL_MSG_FIELD(I32, atoll_em_error, errnum),
               ATOLL_MSG_FIELD(STR, atoll_em_error, text));

ATOLL_MSG_DESC(atoll_em_hello, ATOLL_MSG_FIELD(U32, atoll_em_hello, version),
               ATOLL_MSG_FIELD(U32, atoll_em_hello, pid),
               ATOLL_MSG_FIELD(U64, atoll_em_hello, total_max));

ATOLL_MSG_DESC(atoll_em_put, ATOLL_MSG_FIELD(STR, atoll_em_put, id),
               ATOLL_MSG_FIELD(STR, atoll_em_put, tenant), ATOLL_MSG_FIELD(STR, atoll_em_put, name),
               ATOLL_MSG_FIELD(BYTES, atoll_em_put, policy),
               ATOLL_MSG_FIELD(BYTES, atoll_em_put, bound));

ATOLL_MSG_DESC(atoll_em_ref, ATOLL_MSG_FIELD(STR, atoll_em_ref, id));

ATOLL_MSG_DESC(atoll_em_secrets, ATOLL_MSG_FIELD(STR, atoll_em_secrets, tenant),
               ATOLL_MSG_FIELD(BYTES, atoll_em_secrets, secrets));

ATOLL_MSG_DESC(atoll_em_cache, ATOLL_MSG_FIELD(U64, atoll_em_cache, max_bytes),
               ATOLL_MSG_FIELD(BYTES, atoll_em_cache, table));

ATOLL_MSG_DESC(atoll_em_cached, ATOLL_MSG_FIELD(U64, atoll_em_cached, hits),
               ATOLL_MSG_FIELD(U64, atoll_em_cached, misses),
               ATOLL_MSG_FIELD(U64, atoll_em_cached, hit_bytes),
               ATOLL_MSG_FIELD(U64, atoll_em_cached, miss_bytes),
               ATOLL_MSG_FIELD(U64, atoll_em_cached, evictions),
               ATOLL_MSG_FIELD(U64, atoll_em_cached, mismatches),
               ATOLL_MSG_FIELD(U64, atoll_em_cached, failures),
               ATOLL_MSG_FIELD(U64, atoll_em_cached, bytes),
               ATOLL_MSG_FIELD(U64, atoll_em_cached, files));

ATOLL_MSG_DESC(atoll_em_stats, ATOLL_MSG_FIELD(U64, atoll_em_stats, rx_bytes),
               ATOLL_MSG_FIELD(U64, atoll_em_stats, tx_bytes),
               ATOLL_MSG_FIELD(U64, atoll_em_stats, connections),
               ATOLL_MSG_FIELD(U64, atoll_em_stats, denied),
               ATOLL_MSG_FIELD(U64, atoll_em_stats, open),
               ATOLL_MSG_FIELD(U64, atoll_em_stats, queries));

ATOLL_MSG_DESC(atoll_em_connection, ATOLL_MSG_FIELD(STR, atoll_em_connection, id),
               ATOLL_MSG_FIELD(U64, atoll_em_connection, number),
               ATOLL_MSG_FIELD(U8, atoll_em_connection, end),
               ATOLL_MSG_FIELD(U8, atoll_em_connection, dns),
               ATOLL_MSG_FIELD(I64, atoll_em_connection, started_unix_ms),
               ATOLL_MSG_FIELD(I64, atoll_em_connection, ended_unix_ms),
               ATOLL_MSG_FIELD(STR, atoll_em_connection, name),
               ATOLL_MSG_FIELD(STR, atoll_em_connection, address),
               ATOLL_MSG_FIELD(U32, atoll_em_connection, port),
               ATOLL_MSG_FIELD(STR, atoll_em_connection, rule),
               ATOLL_MSG_FIELD(STR, atoll_em_connection, hint),
               ATOLL_MSG_FIELD(I32, atoll_em_connection, errnum),
               ATOLL_MSG_FIELD(U64, atoll_em_connection, rx_bytes),
               ATOLL_MSG_FIELD(U64, atoll_em_connection, tx_bytes),
               ATOLL_MSG_FIELD(U64, atoll_em_connection, lost));

ATOLL_MSG_DESC(atoll_em_dial, ATOLL_MSG_FIELD(U64, atoll_em_dial, number),
               ATOLL_MSG_FIELD(STR, atoll_em_dial, id), ATOLL_MSG_FIELD(U32, atoll_em_dial, port));

ATOLL_MSG_DESC(atoll_em_dialed, ATOLL_MSG_FIELD(U64, atoll_em_dialed, number),
               ATOLL_MSG_FIELD(I32, atoll_em_dialed, errnum));
