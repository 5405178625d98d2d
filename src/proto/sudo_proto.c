#include "proto/sudo_proto.h"

/* One row per field, in wire order: append only. */

ATOLL_MSG_DESC(atoll_sudo_run, ATOLL_MSG_FIELD(U32, atoll_sudo_run, flags),
               ATOLL_MSG_FIELD(STR, atoll_sudo_run, user),
               ATOLL_MSG_FIELD(STR, atoll_sudo_run, group),
               ATOLL_MSG_FIELD(STRV, atoll_sudo_run, argv),
               ATOLL_MSG_FIELD(STRV, atoll_sudo_run, env),
               ATOLL_MSG_FIELD(STRV, atoll_sudo_run, vars),
               ATOLL_MSG_FIELD(U32, atoll_sudo_run, terminal));

ATOLL_MSG_DESC(atoll_sudo_signal, ATOLL_MSG_FIELD(I32, atoll_sudo_signal, signal));

ATOLL_MSG_DESC(atoll_sudo_error, ATOLL_MSG_FIELD(STR, atoll_sudo_error, text),
               ATOLL_MSG_FIELD(I32, atoll_sudo_error, code));

ATOLL_MSG_DESC(atoll_sudo_exit, ATOLL_MSG_FIELD(I32, atoll_sudo_exit, code),
               ATOLL_MSG_FIELD(I32, atoll_sudo_exit, signal));
