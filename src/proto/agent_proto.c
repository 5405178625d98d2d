#include "proto/agent_proto.h"

/* One row per field, in wire order: append only. */

ATOLL_MSG_DESC(atoll_am_hello, ATOLL_MSG_FIELD(U32, atoll_am_hello, version),
               ATOLL_MSG_FIELD(U32, atoll_am_hello, features),
               ATOLL_MSG_FIELD(U32, atoll_am_hello, pid),
               ATOLL_MSG_FIELD(I64, atoll_am_hello, started_unix_ms));

ATOLL_MSG_DESC(atoll_am_error, ATOLL_MSG_FIELD(U32, atoll_am_error, kind),
               ATOLL_MSG_FIELD(I32, atoll_am_error, errnum),
               ATOLL_MSG_FIELD(STR, atoll_am_error, text));

ATOLL_MSG_DESC(atoll_am_exec_start, ATOLL_MSG_FIELD(U64, atoll_am_exec_start, exec),
               ATOLL_MSG_FIELD(U32, atoll_am_exec_start, flags),
               ATOLL_MSG_FIELD(STR, atoll_am_exec_start, user),
               ATOLL_MSG_FIELD(STR, atoll_am_exec_start, cwd),
               ATOLL_MSG_FIELD(STRV, atoll_am_exec_start, argv),
               ATOLL_MSG_FIELD(STRV, atoll_am_exec_start, env),
               ATOLL_MSG_FIELD(U32, atoll_am_exec_start, timeout_ms),
               ATOLL_MSG_FIELD(U32, atoll_am_exec_start, cols),
               ATOLL_MSG_FIELD(U32, atoll_am_exec_start, rows),
               ATOLL_MSG_FIELD(U32, atoll_am_exec_start, window));

ATOLL_MSG_DESC(atoll_am_exec_started, ATOLL_MSG_FIELD(U32, atoll_am_exec_started, pid));

ATOLL_MSG_DESC(atoll_am_exec_ref, ATOLL_MSG_FIELD(U64, atoll_am_exec_ref, exec));

ATOLL_MSG_DESC(atoll_am_stdin, ATOLL_MSG_FIELD(U64, atoll_am_stdin, exec),
               ATOLL_MSG_FIELD(U64, atoll_am_stdin, offset),
               ATOLL_MSG_FIELD(BYTES, atoll_am_stdin, data));

ATOLL_MSG_DESC(atoll_am_signal, ATOLL_MSG_FIELD(U64, atoll_am_signal, exec),
               ATOLL_MSG_FIELD(I32, atoll_am_signal, signal),
               ATOLL_MSG_FIELD(U8, atoll_am_signal, tree),
               ATOLL_MSG_FIELD(STR, atoll_am_signal, who));

ATOLL_MSG_DESC(atoll_am_resize, ATOLL_MSG_FIELD(U64, atoll_am_resize, exec),
               ATOLL_MSG_FIELD(U32, atoll_am_resize, cols),
               ATOLL_MSG_FIELD(U32, atoll_am_resize, rows));

ATOLL_MSG_DESC(atoll_am_resume, ATOLL_MSG_FIELD(U64, atoll_am_resume, exec),
               ATOLL_MSG_FIELD(U64, atoll_am_resume, stdout_offset),
               ATOLL_MSG_FIELD(U64, atoll_am_resume, stderr_offset));

ATOLL_MSG_DESC(atoll_am_ack, ATOLL_MSG_FIELD(U64, atoll_am_ack, exec),
               ATOLL_MSG_FIELD(U8, atoll_am_ack, stream),
               ATOLL_MSG_FIELD(U64, atoll_am_ack, offset));

ATOLL_MSG_DESC(atoll_am_output, ATOLL_MSG_FIELD(U64, atoll_am_output, exec),
               ATOLL_MSG_FIELD(U8, atoll_am_output, stream),
               ATOLL_MSG_FIELD(U64, atoll_am_output, offset),
               ATOLL_MSG_FIELD(BYTES, atoll_am_output, data));

ATOLL_MSG_DESC(atoll_am_exit, ATOLL_MSG_FIELD(U64, atoll_am_exit, exec),
               ATOLL_MSG_FIELD(U32, atoll_am_exit, kind), ATOLL_MSG_FIELD(I32, atoll_am_exit, code),
               ATOLL_MSG_FIELD(I32, atoll_am_exit, signal),
               ATOLL_MSG_FIELD(STR, atoll_am_exit, who),
               ATOLL_MSG_FIELD(U64, atoll_am_exit, stdout_bytes),
               ATOLL_MSG_FIELD(U64, atoll_am_exit, stderr_bytes),
               ATOLL_MSG_FIELD(U64, atoll_am_exit, user_us),
               ATOLL_MSG_FIELD(U64, atoll_am_exit, system_us),
               ATOLL_MSG_FIELD(U64, atoll_am_exit, max_rss_bytes),
               ATOLL_MSG_FIELD(U32, atoll_am_exit, oom_kills),
               ATOLL_MSG_FIELD(U32, atoll_am_exit, oom_pid),
               ATOLL_MSG_FIELD(STR, atoll_am_exit, oom_process),
               ATOLL_MSG_FIELD(U64, atoll_am_exit, oom_peak_bytes),
               ATOLL_MSG_FIELD(U64, atoll_am_exit, oom_limit_bytes),
               ATOLL_MSG_FIELD(I64, atoll_am_exit, ended_unix_ms));

ATOLL_MSG_DESC(atoll_am_exec_info, ATOLL_MSG_FIELD(U64, atoll_am_exec_info, exec),
               ATOLL_MSG_FIELD(U32, atoll_am_exec_info, pid),
               ATOLL_MSG_FIELD(U8, atoll_am_exec_info, ended),
               ATOLL_MSG_FIELD(U64, atoll_am_exec_info, stdout_bytes),
               ATOLL_MSG_FIELD(U64, atoll_am_exec_info, stderr_bytes),
               ATOLL_MSG_FIELD(U64, atoll_am_exec_info, stdin_bytes),
               ATOLL_MSG_FIELD(I64, atoll_am_exec_info, started_unix_ms),
               ATOLL_MSG_FIELD(U64, atoll_am_exec_info, stdout_acked),
               ATOLL_MSG_FIELD(U64, atoll_am_exec_info, stderr_acked));

ATOLL_MSG_DESC(atoll_am_process, ATOLL_MSG_FIELD(U32, atoll_am_process, pid),
               ATOLL_MSG_FIELD(U32, atoll_am_process, parent),
               ATOLL_MSG_FIELD(U32, atoll_am_process, uid),
               ATOLL_MSG_FIELD(U8, atoll_am_process, state),
               ATOLL_MSG_FIELD(U64, atoll_am_process, rss_bytes),
               ATOLL_MSG_FIELD(U64, atoll_am_process, cpu_us),
               ATOLL_MSG_FIELD(STR, atoll_am_process, command));

ATOLL_MSG_DESC(atoll_am_path, ATOLL_MSG_FIELD(STR, atoll_am_path, user),
               ATOLL_MSG_FIELD(STR, atoll_am_path, path),
               ATOLL_MSG_FIELD(U8, atoll_am_path, follow),
               ATOLL_MSG_FIELD(U8, atoll_am_path, recursive),
               ATOLL_MSG_FIELD(STR, atoll_am_path, attributes));

ATOLL_MSG_DESC(atoll_am_list, ATOLL_MSG_FIELD(STR, atoll_am_list, user),
               ATOLL_MSG_FIELD(STR, atoll_am_list, path),
               ATOLL_MSG_FIELD(U32, atoll_am_list, depth),
               ATOLL_MSG_FIELD(U32, atoll_am_list, max_entries),
               ATOLL_MSG_FIELD(STR, atoll_am_list, attributes));

ATOLL_MSG_DESC(atoll_am_entry, ATOLL_MSG_FIELD(STR, atoll_am_entry, path),
               ATOLL_MSG_FIELD(U8, atoll_am_entry, type),
               ATOLL_MSG_FIELD(U32, atoll_am_entry, mode),
               ATOLL_MSG_FIELD(U32, atoll_am_entry, uid), ATOLL_MSG_FIELD(U32, atoll_am_entry, gid),
               ATOLL_MSG_FIELD(STR, atoll_am_entry, owner),
               ATOLL_MSG_FIELD(STR, atoll_am_entry, group),
               ATOLL_MSG_FIELD(U64, atoll_am_entry, size_bytes),
               ATOLL_MSG_FIELD(I64, atoll_am_entry, mtime_ms),
               ATOLL_MSG_FIELD(STR, atoll_am_entry, target),
               ATOLL_MSG_FIELD(BYTES, atoll_am_entry, attributes),
               ATOLL_MSG_FIELD(STR, atoll_am_entry, resolved),
               ATOLL_MSG_FIELD(U8, atoll_am_entry, resolved_type),
               ATOLL_MSG_FIELD(U32, atoll_am_entry, resolved_mode));

ATOLL_MSG_DESC(atoll_am_opened, ATOLL_MSG_FIELD(U32, atoll_am_opened, handle),
               ATOLL_MSG_FIELD(U64, atoll_am_opened, size_bytes));

ATOLL_MSG_DESC(atoll_am_handle, ATOLL_MSG_FIELD(U32, atoll_am_handle, handle));

ATOLL_MSG_DESC(atoll_am_read, ATOLL_MSG_FIELD(U32, atoll_am_read, handle),
               ATOLL_MSG_FIELD(U64, atoll_am_read, offset),
               ATOLL_MSG_FIELD(U32, atoll_am_read, length));

ATOLL_MSG_DESC(atoll_am_data, ATOLL_MSG_FIELD(BYTES, atoll_am_data, data));

ATOLL_MSG_DESC(atoll_am_create, ATOLL_MSG_FIELD(STR, atoll_am_create, user),
               ATOLL_MSG_FIELD(STR, atoll_am_create, path),
               ATOLL_MSG_FIELD(U32, atoll_am_create, mode),
               ATOLL_MSG_FIELD(U8, atoll_am_create, parents),
               ATOLL_MSG_FIELD(U8, atoll_am_create, exclusive),
               ATOLL_MSG_FIELD(U8, atoll_am_create, in_place));

ATOLL_MSG_DESC(atoll_am_write, ATOLL_MSG_FIELD(U32, atoll_am_write, handle),
               ATOLL_MSG_FIELD(U64, atoll_am_write, offset),
               ATOLL_MSG_FIELD(BYTES, atoll_am_write, data));

ATOLL_MSG_DESC(atoll_am_mkdir, ATOLL_MSG_FIELD(STR, atoll_am_mkdir, user),
               ATOLL_MSG_FIELD(STR, atoll_am_mkdir, path),
               ATOLL_MSG_FIELD(U32, atoll_am_mkdir, mode),
               ATOLL_MSG_FIELD(U8, atoll_am_mkdir, parents));

ATOLL_MSG_DESC(atoll_am_two_paths, ATOLL_MSG_FIELD(STR, atoll_am_two_paths, user),
               ATOLL_MSG_FIELD(STR, atoll_am_two_paths, from),
               ATOLL_MSG_FIELD(STR, atoll_am_two_paths, to));

ATOLL_MSG_DESC(atoll_am_chmod, ATOLL_MSG_FIELD(STR, atoll_am_chmod, user),
               ATOLL_MSG_FIELD(STR, atoll_am_chmod, path),
               ATOLL_MSG_FIELD(U32, atoll_am_chmod, mode));

ATOLL_MSG_DESC(atoll_am_chown, ATOLL_MSG_FIELD(STR, atoll_am_chown, user),
               ATOLL_MSG_FIELD(STR, atoll_am_chown, path),
               ATOLL_MSG_FIELD(STR, atoll_am_chown, owner),
               ATOLL_MSG_FIELD(STR, atoll_am_chown, group));

ATOLL_MSG_DESC(atoll_am_xattr, ATOLL_MSG_FIELD(STR, atoll_am_xattr, user),
               ATOLL_MSG_FIELD(STR, atoll_am_xattr, path),
               ATOLL_MSG_FIELD(STR, atoll_am_xattr, name),
               ATOLL_MSG_FIELD(BYTES, atoll_am_xattr, value));

ATOLL_MSG_DESC(atoll_am_watch, ATOLL_MSG_FIELD(STR, atoll_am_watch, user),
               ATOLL_MSG_FIELD(STR, atoll_am_watch, path),
               ATOLL_MSG_FIELD(U8, atoll_am_watch, recursive));

ATOLL_MSG_DESC(atoll_am_watch_event, ATOLL_MSG_FIELD(U32, atoll_am_watch_event, handle),
               ATOLL_MSG_FIELD(U8, atoll_am_watch_event, kind),
               ATOLL_MSG_FIELD(STR, atoll_am_watch_event, name));

ATOLL_MSG_DESC(atoll_am_connect, ATOLL_MSG_FIELD(U32, atoll_am_connect, port),
               ATOLL_MSG_FIELD(STR, atoll_am_connect, path),
               ATOLL_MSG_FIELD(STR, atoll_am_connect, user));

ATOLL_MSG_DESC(atoll_am_usage, ATOLL_MSG_FIELD(U32, atoll_am_usage, processes),
               ATOLL_MSG_FIELD(U64, atoll_am_usage, disk_used_bytes),
               ATOLL_MSG_FIELD(U64, atoll_am_usage, disk_total_bytes),
               ATOLL_MSG_FIELD(U64, atoll_am_usage, inodes_used),
               ATOLL_MSG_FIELD(U64, atoll_am_usage, inodes_total),
               ATOLL_MSG_FIELD(U64, atoll_am_usage, net_rx_bytes),
               ATOLL_MSG_FIELD(U64, atoll_am_usage, net_tx_bytes),
               ATOLL_MSG_FIELD(U64, atoll_am_usage, rss_bytes),
               ATOLL_MSG_FIELD(U64, atoll_am_usage, cpu_us));

ATOLL_MSG_DESC(atoll_am_user, ATOLL_MSG_FIELD(STR, atoll_am_user, user));

ATOLL_MSG_DESC(atoll_am_pause, ATOLL_MSG_FIELD(U8, atoll_am_pause, end_processes),
               ATOLL_MSG_FIELD(STR, atoll_am_pause, who));
