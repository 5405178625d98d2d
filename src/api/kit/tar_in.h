#pragma once
#include "api/call.h"

/*
 * Unpacks the body of a request, a tar archive of any size, with the program tar inside the sandbox, as the
 * user that the request names. A hostile archive can do no more than any other program there. If tar
 * fails, the error has its error output.
 */
struct atoll_tar_in {
    const char *dir;         /* is made if it does not exist */
    const char *user;        /* NULL: the default user */
    const char *compression; /* option of tar: "-z", …; "": the archive is not compressed */
    bool keep_modes;         /* permissions as in the archive, whatever the umask */
};

/* The route's body must be a stream. The strings are borrowed for the call. done gets the call, which it
 * ends, also after the client has disconnected. INVALID_ARGUMENT: tar failed; RESOURCE_EXHAUSTED: the disk is full. */
void atoll_tar_in(struct atoll_api_call *call, const struct atoll_tar_in *what,
                  atoll_done_fn *done);
