/* Connecting to somebody who listens and does not accept. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/defs.h"
#include "sys/tree.h"
#include "sys/unix_socket.h"
#include "test.h"

static void a_full_queue_is_not_waited_for(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char dir[] = "/tmp/atoll-queue-XXXXXX";
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fds[8], count = 0;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/s", dir);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 2), 0);
    (void)alarm(20);
    while (count < 8 && (fds[count] = atoll_unix_connect(dir, "s")) >= 0) {
        assert_int_equal(fcntl(fds[count], F_GETFL) & O_NONBLOCK, 0);
        count++;
    }
    (void)alarm(0);
    assert_in_range(count, 1, 7);
    assert_int_equal(fds[count], -EAGAIN);
    while (count > 0)
        (void)close(fds[--count]);
    (void)close(listener);
    assert_int_equal(atoll_unix_connect(dir, "s"), -ECONNREFUSED);
    assert_int_equal(atoll_unix_connect(dir, "t"), -ENOENT);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, dir), 0);
}

static void a_link_is_not_followed(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char dir[] = "/tmp/atoll-link-XXXXXX", link[64];
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/s", dir);
    (void)snprintf(link, sizeof(link), "%s/l", dir);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 2), 0);
    assert_int_equal(symlink("s", link), 0);
    fd = atoll_unix_connect(dir, "s");
    assert_true(fd >= 0);
    assert_int_equal(atoll_unix_connect(dir, "l"), -ECONNREFUSED);
    (void)close(fd);
    (void)close(listener);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_full_queue_is_not_waited_for),
                                       cmocka_unit_test(a_link_is_not_followed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
