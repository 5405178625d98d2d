#include "proto/agent_proto.h"

/* One row per field, in wire order: append only. */

ATOLL_MSG_DESC(atoll_am_hello,
               ATOLL_FIELD(U32, atoll_am_hello, version),
               ATOLL_FIELD(U32, atoll_am_hello, features),
               ATOLL_FIELD(U32, atoll_am_hello, pid),
               ATOLL_FIELD(I64, atoll_am_hello, started_unix_ms));

ATOLL_MSG_DESC(atoll_am_error,
               ATOLL_FIELD(U32, atoll_am_error, kind),
               ATOLL_FIELD(I32, atoll_am_error, errnum),
               ATOLL_FIELD(STR, atoll_am_error, text));

ATOLL_MSG_DESC(atoll_am_exec_start,
               ATOLL_FIELD(U64, atoll_am_exec_start, exec),
               ATOLL_FIELD(U32, atoll_am_exec_start, flags),
               ATOLL_FIELD(STR, atoll_am_exec_start, user),
               ATOLL_FIELD(STR, atoll_am_exec_start, cwd),
               ATOLL_FIELD(STRV, atoll_am_exec_start, argv),
               ATOLL_FIELD(STRV, atoll_am_exec_start, env),
               ATOLL_FIELD(U32, atoll_am_exec_start, timeout_ms),
               ATOLL_FIELD(U32, atoll_am_exec_start, cols),
               ATOLL_FIELD(U32, atoll_am_exec_start, rows),
               ATOLL_FIELD(U32, atoll_am_exec_start, window));

ATOLL_MSG_DESC(atoll_am_exec_started,
               ATOLL_FIELD(U32, atoll_am_exec_started, pid));

ATOLL_MSG_DESC(atoll_am_exec_ref,
               ATOLL_FIELD(U64, atoll_am_exec_ref, exec));

ATOLL_MSG_DESC(atoll_am_stdin,
               ATOLL_FIELD(U64, atoll_am_stdin, exec),
               ATOLL_FIELD(U64, atoll_am_stdin, offset),
               ATOLL_FIELD(BYTES, atoll_am_stdin, data));

ATOLL_MSG_DESC(atoll_am_signal,
               ATOLL_FIELD(U64, atoll_am_signal, exec),
               ATOLL_FIELD(I32, atoll_am_signal, signal),
               ATOLL_FIELD(U8, atoll_am_signal, tree),
               ATOLL_FIELD(STR, atoll_am_signal, who));

ATOLL_MSG_DESC(atoll_am_resize,
               ATOLL_FIELD(U64, atoll_am_resize, exec),
               ATOLL_FIELD(U32, atoll_am_resize, cols),
               ATOLL_FIELD(U32, atoll_am_resize, rows));

ATOLL_MSG_DESC(atoll_am_resume,
               ATOLL_FIELD(U64, atoll_am_resume, exec),
               ATOLL_FIELD(U64, atoll_am_resume, stdout_offset),
               ATOLL_FIELD(U64, atoll_am_resume, stderr_offset));

ATOLL_MSG_DESC(atoll_am_ack,
               ATOLL_FIELD(U64, atoll_am_ack, exec),
               ATOLL_FIELD(U8, atoll_am_ack, stream),
               ATOLL_FIELD(U64, atoll_am_ack, offset));

ATOLL_MSG_DESC(atoll_am_output,
               ATOLL_FIELD(U64, atoll_am_output, exec),
               ATOLL_FIELD(U8, atoll_am_output, stream),
               ATOLL_FIELD(U64, atoll_am_output, offset),
               ATOLL_FIELD(BYTES, atoll_am_output, data));

ATOLL_MSG_DESC(atoll_am_exit,
               ATOLL_FIELD(U64, atoll_am_exit, exec),
               ATOLL_FIELD(U32, atoll_am_exit, kind),
               ATOLL_FIELD(I32, atoll_am_exit, code),
               ATOLL_FIELD(I32, atoll_am_exit, signal),
               ATOLL_FIELD(STR, atoll_am_exit, who),
               ATOLL_FIELD(U64, atoll_am_exit, stdout_bytes),
               ATOLL_FIELD(U64, atoll_am_exit, stderr_bytes),
               ATOLL_FIELD(U64, atoll_am_exit, user_us),
               ATOLL_FIELD(U64, atoll_am_exit, system_us),
               ATOLL_FIELD(U64, atoll_am_exit, max_rss_bytes),
               ATOLL_FIELD(U32, atoll_am_exit, oom_kills),
               ATOLL_FIELD(U32, atoll_am_exit, oom_pid),
               ATOLL_FIELD(STR, atoll_am_exit, oom_process),
               ATOLL_FIELD(U64, atoll_am_exit, oom_peak_bytes),
               ATOLL_FIELD(U64, atoll_am_exit, oom_limit_bytes));

ATOLL_MSG_DESC(atoll_am_exec_info,
               ATOLL_FIELD(U64, atoll_am_exec_info, exec),
               ATOLL_FIELD(U32, atoll_am_exec_info, pid),
               ATOLL_FIELD(U8, atoll_am_exec_info, ended),
               ATOLL_FIELD(U64, atoll_am_exec_info, stdout_bytes),
               ATOLL_FIELD(U64, atoll_am_exec_info, stderr_bytes),
               ATOLL_FIELD(U64, atoll_am_exec_info, stdin_bytes),
               ATOLL_FIELD(I64, atoll_am_exec_info, started_unix_ms));

ATOLL_MSG_DESC(atoll_am_process,
               ATOLL_FIELD(U32, atoll_am_process, pid),
               ATOLL_FIELD(U32, atoll_am_process, parent),
               ATOLL_FIELD(U32, atoll_am_process, uid),
               ATOLL_FIELD(U8, atoll_am_process, state),
               ATOLL_FIELD(U64, atoll_am_process, rss_bytes),
               ATOLL_FIELD(U64, atoll_am_process, cpu_us),
               ATOLL_FIELD(STR, atoll_am_process, command));

ATOLL_MSG_DESC(atoll_am_path,
               ATOLL_FIELD(STR, atoll_am_path, user),
               ATOLL_FIELD(STR, atoll_am_path, path),
               ATOLL_FIELD(U8, atoll_am_path, follow),
               ATOLL_FIELD(U8, atoll_am_path, recursive));

ATOLL_MSG_DESC(atoll_am_list,
               ATOLL_FIELD(STR, atoll_am_list, user),
               ATOLL_FIELD(STR, atoll_am_list, path),
               ATOLL_FIELD(U32, atoll_am_list, depth),
               ATOLL_FIELD(U32, atoll_am_list, max_entries));

ATOLL_MSG_DESC(atoll_am_entry,
               ATOLL_FIELD(STR, atoll_am_entry, path),
               ATOLL_FIELD(U8, atoll_am_entry, type),
               ATOLL_FIELD(U32, atoll_am_entry, mode),
               ATOLL_FIELD(U32, atoll_am_entry, uid),
               ATOLL_FIELD(U32, atoll_am_entry, gid),
               ATOLL_FIELD(STR, atoll_am_entry, owner),
               ATOLL_FIELD(STR, atoll_am_entry, group),
               ATOLL_FIELD(U64, atoll_am_entry, size_bytes),
               ATOLL_FIELD(I64, atoll_am_entry, mtime_ms),
               ATOLL_FIELD(STR, atoll_am_entry, target));

ATOLL_MSG_DESC(atoll_am_opened,
               ATOLL_FIELD(U32, atoll_am_opened, handle),
               ATOLL_FIELD(U64, atoll_am_opened, size_bytes));

ATOLL_MSG_DESC(atoll_am_handle,
               ATOLL_FIELD(U32, atoll_am_handle, handle));

ATOLL_MSG_DESC(atoll_am_read,
               ATOLL_FIELD(U32, atoll_am_read, handle),
               ATOLL_FIELD(U64, atoll_am_read, offset),
               ATOLL_FIELD(U32, atoll_am_read, length));

ATOLL_MSG_DESC(atoll_am_data,
               ATOLL_FIELD(BYTES, atoll_am_data, data));

ATOLL_MSG_DESC(atoll_am_create,
               ATOLL_FIELD(STR, atoll_am_create, user),
               ATOLL_FIELD(STR, atoll_am_create, path),
               ATOLL_FIELD(U32, atoll_am_create, mode),
               ATOLL_FIELD(U8, atoll_am_create, parents),
               ATOLL_FIELD(U8, atoll_am_create, exclusive));

ATOLL_MSG_DESC(atoll_am_write,
               ATOLL_FIELD(U32, atoll_am_write, handle),
               ATOLL_FIELD(U64, atoll_am_write, offset),
               ATOLL_FIELD(BYTES, atoll_am_write, data));

ATOLL_MSG_DESC(atoll_am_mkdir,
               ATOLL_FIELD(STR, atoll_am_mkdir, user),
               ATOLL_FIELD(STR, atoll_am_mkdir, path),
               ATOLL_FIELD(U32, atoll_am_mkdir, mode),
               ATOLL_FIELD(U8, atoll_am_mkdir, parents));

ATOLL_MSG_DESC(atoll_am_two_paths,
               ATOLL_FIELD(STR, atoll_am_two_paths, user),
               ATOLL_FIELD(STR, atoll_am_two_paths, from),
               ATOLL_FIELD(STR, atoll_am_two_paths, to));

ATOLL_MSG_DESC(atoll_am_chmod,
               ATOLL_FIELD(STR, atoll_am_chmod, user),
               ATOLL_FIELD(STR, atoll_am_chmod, path),
               ATOLL_FIELD(U32, atoll_am_chmod, mode));

ATOLL_MSG_DESC(atoll_am_chown,
               ATOLL_FIELD(STR, atoll_am_chown, user),
               ATOLL_FIELD(STR, atoll_am_chown, path),
               ATOLL_FIELD(STR, atoll_am_chown, owner),
               ATOLL_FIELD(STR, atoll_am_chown, group));

ATOLL_MSG_DESC(atoll_am_xattr,
               ATOLL_FIELD(STR, atoll_am_xattr, user),
               ATOLL_FIELD(STR, atoll_am_xattr, path),
               ATOLL_FIELD(STR, atoll_am_xattr, name),
               ATOLL_FIELD(BYTES, atoll_am_xattr, value));

ATOLL_MSG_DESC(atoll_am_watch,
               ATOLL_FIELD(STR, atoll_am_watch, user),
               ATOLL_FIELD(STR, atoll_am_watch, path),
               ATOLL_FIELD(U8, atoll_am_watch, recursive));

ATOLL_MSG_DESC(atoll_am_watch_event,
               ATOLL_FIELD(U32, atoll_am_watch_event, handle),
               ATOLL_FIELD(U8, atoll_am_watch_event, kind),
               ATOLL_FIELD(STR, atoll_am_watch_event, name));

ATOLL_MSG_DESC(atoll_am_connect,
               ATOLL_FIELD(U32, atoll_am_connect, port),
               ATOLL_FIELD(STR, atoll_am_connect, path),
               ATOLL_FIELD(STR, atoll_am_connect, user));

ATOLL_MSG_DESC(atoll_am_usage,
               ATOLL_FIELD(U32, atoll_am_usage, processes),
               ATOLL_FIELD(U64, atoll_am_usage, disk_used_bytes),
               ATOLL_FIELD(U64, atoll_am_usage, disk_total_bytes),
               ATOLL_FIELD(U64, atoll_am_usage, inodes_used),
               ATOLL_FIELD(U64, atoll_am_usage, inodes_total),
               ATOLL_FIELD(U64, atoll_am_usage, net_rx_bytes),
               ATOLL_FIELD(U64, atoll_am_usage, net_tx_bytes),
               ATOLL_FIELD(U64, atoll_am_usage, rss_bytes),
               ATOLL_FIELD(U64, atoll_am_usage, cpu_us));
