/*
 * The daemon's options and its state directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/fd.h"
#include "daemon/config.h"
#include "daemon/process.h"
#include "fake_engine.h"

static const char *const variables[] = {
    "ATOLL_STATE",         "ATOLL_SOCKET",       "ATOLL_LISTEN",    "ATOLL_POOL",
    "ATOLL_MAX_SANDBOXES", "ATOLL_WAIVE",        "ATOLL_LOG_LEVEL", "ATOLL_JOURNAL_MAX",
    "ATOLL_NETWORK_MAX",   "ATOLL_NETWORK_DENY", "ATOLL_CONFIG",    "XDG_RUNTIME_DIR",
    "ATOLL_E2B_MAX_HOURS",
};

static char dir[64];

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(variables); i++)
        unsetenv(variables[i]);
    setenv("HOME", "/home/someone", 1);
    (void)snprintf(dir, sizeof(dir), "/tmp/atoll-config-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    for (const char *const *name = (const char *const[]){"atolld.conf", "atolld.lock", NULL}; *name;
         name++) {
        (void)snprintf(command, sizeof(command), "%s/%s", dir, *name);
        (void)unlink(command);
    }
    return rmdir(dir);
}

/* Arguments end with NULL. */
static int load(struct atoll_config *config, struct atoll_error *err, ...)
{
    char *argv[16] = {"atolld"};
    int argc = 1;
    va_list ap;

    va_start(ap, err);
    while ((argv[argc] = va_arg(ap, char *)))
        argc++;
    va_end(ap);
    return atoll_config_load(config, argc, argv, err);
}

static const char *write_config(const char *text)
{
    static char path[128];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/atolld.conf", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(atoll_fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
    return path;
}

static void defaults_fit_the_user(void **state)
{
    struct atoll_config c;
    struct atoll_error err;

    (void)state;
    assert_int_equal(load(&c, &err, NULL), 0);
    if (geteuid() == 0) {
        assert_string_equal(c.state, "/var/lib/atoll");
        assert_string_equal(c.socket, "/run/atoll/atoll.sock");
    } else {
        assert_string_equal(c.state, "/home/someone/.local/state/atoll");
        assert_string_equal(c.socket, "/home/someone/.local/state/atoll/atoll.sock");
    }
    assert_string_equal(c.listen, "");
    assert_int_equal(c.pool, 0);
    assert_int_equal(c.max_sandboxes, 4096);
    assert_int_equal(c.journal_max_bytes, 64 * 1024 * 1024);
    assert_int_equal(c.log_level, ATOLL_LOG_INFO);
}

static void flags_beat_environment_beats_file(void **state)
{
    const char *file = write_config("# a comment\n\n pool = 1 \nlisten=127.0.0.1:1\n"
                                    "max-sandboxes = 9\nwaive = memory, disk\n");
    struct atoll_config c;
    struct atoll_error err;

    (void)state;
    setenv("ATOLL_POOL", "2", 1);
    setenv("ATOLL_LISTEN", "127.0.0.1:2", 1);
    assert_int_equal(
        load(&c, &err, "--pool=3", "--config", file, "--log-level", "debug", "--state", "/s", NULL),
        0);
    assert_int_equal(c.pool, 3);
    assert_string_equal(c.listen, "127.0.0.1:2");
    assert_int_equal(c.max_sandboxes, 9);
    assert_int_equal(c.waived, 9);
    assert_int_equal(c.log_level, ATOLL_LOG_DEBUG);
    assert_string_equal(c.state, "/s");
}

static void relative_paths_become_absolute(void **state)
{
    struct atoll_config c;
    struct atoll_error err;

    (void)state;
    assert_int_equal(load(&c, &err, "--state", "here", NULL), 0);
    assert_true(c.state[0] == '/');
    assert_string_equal(strrchr(c.state, '/'), "/here");
}

/* The value is at the index of the option. */
static void facades_have_options_of_their_own(void **state)
{
    const struct atoll_facade_option *option;
    struct atoll_config c;
    struct atoll_error err;
    size_t i = 0;

    (void)state;
    while ((option = atoll_facade_option_at(i)) && strcmp(option->name, "e2b-max-hours") != 0)
        i++;
    assert_non_null(option);
    assert_int_equal(load(&c, &err, NULL), 0);
    assert_int_equal(c.facade_options[i], 24);
    assert_int_equal(load(&c, &err, "--e2b-max-hours", "7", NULL), 0);
    assert_int_equal(c.facade_options[i], 7);
    assert_true(load(&c, &err, "--e2b-max-hours", "9000", NULL) < 0);
    assert_string_equal(err.text,
                        "--e2b-max-hours must be a whole number from 0 to 8784 (got \"9000\")");
    while (atoll_facade_option_at(i))
        i++;
    assert_true(i <= ATOLL_FACADE_OPTIONS_MAX);
}

static void mistakes_say_where_they_are(void **state)
{
    struct atoll_config c;
    struct atoll_error err;
    char *config = NULL;

    (void)state;
    assert_true(load(&c, &err, "--pol", "3", NULL) < 0);
    assert_string_equal(err.text, "there is no option \"--pol\"; see atolld --help");
    assert_true(load(&c, &err, "serve", NULL) < 0);
    assert_true(load(&c, &err, "--pool", NULL) < 0);
    assert_string_equal(err.text, "--pool needs a value: --pool N");
    assert_true(load(&c, &err, "--pool", "many", NULL) < 0);
    assert_string_equal(err.text, "--pool must be a whole number from 0 to 1024 (got \"many\")");
    assert_true(load(&c, &err, "--waive", "memory,gpu", NULL) < 0);
    assert_true(load(&c, &err, "--network-max", "bridge,a=wide", NULL) < 0);
    assert_string_equal(
        err.text, "--network-max must be none, isolated or bridge, and TENANT=MODE for single "
                  "tenants (got \"bridge,a=wide\")");
    assert_true(load(&c, &err, "--network-deny", "a.test,b..test", NULL) < 0);
    assert_non_null(strstr(err.text, "--network-deny: \"b..test\" is not a domain"));
    setenv("ATOLL_LOG_LEVEL", "loud", 1);
    assert_true(load(&c, &err, NULL) < 0);
    assert_string_equal(err.text,
                        "ATOLL_LOG_LEVEL must be error, warn, info or debug (got \"loud\")");
    unsetenv("ATOLL_LOG_LEVEL");
    config = (char *)write_config("pool = 1\npool = x\n");
    assert_true(load(&c, &err, "--config", config, NULL) < 0);
    assert_string_equal(err.text, "atolld.conf:2: \"pool\" is here twice");
    config = (char *)write_config("\npool = x\n");
    assert_true(load(&c, &err, "--config", config, NULL) < 0);
    assert_string_equal(err.text,
                        "atolld.conf:2: pool must be a whole number from 0 to 1024 (got \"x\")");
    config = (char *)write_config("pools = 1\n");
    assert_true(load(&c, &err, "--config", config, NULL) < 0);
    assert_non_null(strstr(err.text, "atolld.conf:1: there is no option \"pools\""));
    config = (char *)write_config("pool\n");
    assert_true(load(&c, &err, "--config", config, NULL) < 0);
    assert_true(load(&c, &err, "--config", "/nowhere/at.all", NULL) < 0);
    assert_non_null(strstr(err.text, "/nowhere/at.all"));
}

static void state_is_private_and_locked_once(void **state)
{
    char path[128];
    struct atoll_error err;
    struct stat st;
    int fd, lock, second;

    (void)state;
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(atoll_process_open_state(dir, &fd, &err), 0);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(atoll_process_lock_state(fd, &lock, &err), 0);
    assert_true(atoll_process_lock_state(fd, &second, &err) < 0);
    (void)snprintf(path, sizeof(path), "(pid %d)", (int)getpid());
    assert_non_null(strstr(err.text, path));
    close(lock);
    assert_int_equal(atoll_process_lock_state(fd, &lock, &err), 0);
    close(lock);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(defaults_fit_the_user, set_up, tear_down),
        cmocka_unit_test_setup_teardown(flags_beat_environment_beats_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(relative_paths_become_absolute, set_up, tear_down),
        cmocka_unit_test_setup_teardown(facades_have_options_of_their_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mistakes_say_where_they_are, set_up, tear_down),
        cmocka_unit_test_setup_teardown(state_is_private_and_locked_once, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
