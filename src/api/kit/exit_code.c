#include "api/kit/exit_code.h"

#include <signal.h>

int atoll_exit_code(const struct atoll_exec_result *result)
{
    return result->kind == ATOLL_END_EXITED ? result->code
                                            : 128 + (result->signal ? result->signal : SIGKILL);
}
