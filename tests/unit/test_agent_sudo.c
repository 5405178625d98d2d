/*
 * sudo inside a sandbox: the real client against the real agent, as root in a mount namespace of the
 * test's own, because the socket has a fixed place.
 */
#include "agent_client.h"

#include <sched.h>
#include <sys/mount.h>

static const char *sudo_program(void)
{
    static char path[512];
    const char *dir = getenv("ATOLL_BUILD_DIR");

    (void)snprintf(path, sizeof(path), "%s/atoll-sudo", dir ? dir : ".");
    return path;
}

/* The agent of agent_client.h, with sudo allowed. */
static void sudo_agent(struct agent_client *c, bool many_ids)
{
    struct atoll_agent_config config = {.conn_fd = ATOLL_NO_FD,
                                        .fds = true,
                                        .allow_sudo = true,
                                        .many_ids = many_ids,
                                        .default_uid = 65534,
                                        .default_gid = 65534,
                                        .default_user = "nobody",
                                        .default_home = c->dir,
                                        .oom_fd = ATOLL_NO_FD,
                                        .peak_fd = ATOLL_NO_FD,
                                        .boot_id_fd = ATOLL_NO_FD};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct atoll_error err = {0};

    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", c->path);
    (void)unlink(c->path);
    config.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(config.listen_fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
        listen(config.listen_fd, 4) < 0)
        _exit(2);
    if (!many_ids && (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
        _exit(3);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of ids would clear it */
    (void)!atoll_agent_run(&config, &err);
    (void)fprintf(stderr, "agent: %s\n", err.text);
    _exit(1);
}

static void start(struct agent_client *c, bool many_ids)
{
    char command[768];

    client_start(c);
    (void)kill(c->pid, SIGKILL); /* ours replaces it */
    (void)waitpid(c->pid, NULL, 0);
    if (!many_ids)
        assert_int_equal(chmod("/run", 0777), 0);
    (void)unlink("/run/atoll/sudo.sock"); /* of the one before: ours is there when it is */
    c->pid = fork();
    if (c->pid == 0)
        sudo_agent(c, many_ids);
    for (int i = 0; i < 200 && access("/run/atoll/sudo.sock", F_OK) < 0; i++)
        (void)usleep(10 * 1000);
    (void)snprintf(command, sizeof(command), "mkdir %s/bin && cp %s %s/bin/sudo", c->dir,
                   sudo_program(), c->dir);
    assert_int_equal(system(command), 0);
}

static int setup(void **state)
{
    struct agent_client *c = calloc(1, sizeof(*c));

    start(c, true);
    assert_int_equal(client_connect(c).features,
                     ATOLL_AGENT_FEATURE_FDS | ATOLL_AGENT_FEATURE_SUDO);
    *state = c;
    return 0;
}

/* A script that finds sudo in PATH. */
static struct atoll_am_exec_start with_sudo(const char *const *argv)
{
    static const char *env[] = {"PATH=bin:/usr/bin:/bin", "SECRET=s", "LC_ALL=C"};
    struct atoll_am_exec_start msg = client_command(1, argv);

    msg.env.items = env;
    msg.env.len = 3;
    return msg;
}

static void expect(struct agent_client *c, const char *script, int code, const char *out,
                   const char *err)
{
    struct atoll_am_exec_start msg = with_sudo(CLIENT_SH(script));
    struct run_result r;

    client_run(c, &msg, &r);
    assert_string_equal(atoll_buf_str(&r.err), err);
    assert_string_equal(atoll_buf_str(&r.out), out);
    assert_int_equal(r.exit.kind, ATOLL_END_EXITED);
    assert_int_equal(r.exit.code, code);
    run_result_done(&r);
}

static void runs_as_root_and_as_others(void **state)
{
    struct agent_client *c = *state;

    expect(c, "sudo id -u; sudo -n -u nobody id -u; sudo -u '#12' id -u; sudo -g daemon id -gn", 0,
           "0\n65534\n12\ndaemon\n", "");
    expect(c, "sudo -u nosuch true", 1, "", "sudo: unknown user nosuch\n");
    expect(c, "sudo sh -c 'grep -E \"Cap(Eff|Bnd)|NoNew\" /proc/self/status | cut -f2'", 0,
           "00000000000000fb\n00000000000000fb\n1\n", "");
}

static void carries_descriptors_directory_and_status(void **state)
{
    struct agent_client *c = *state;

    expect(c, "echo in | sudo cat; sudo sh -c 'echo err >&2; exit 42'", 42, "in\n", "err\n");
    expect(c, "mkdir -p w && cd w && PATH=../bin:$PATH && sudo pwd | grep -o '/w$'", 0, "/w\n", "");
    expect(c, "sudo sh -c 'kill -TERM $$'", 128 + SIGTERM, "", "");
    expect(c, "sudo nosuchcommand", 127, "", "sudo: command not found: nosuchcommand\n");
    expect(c, "sudo /etc/passwd", 126, "",
           "sudo: /etc/passwd: permission denied, or not an executable file\n");
}

static void resets_the_environment(void **state)
{
    struct agent_client *c = *state;

    expect(c, "sudo sh -c 'echo $HOME $USER $SUDO_USER $SUDO_UID [$SECRET] $LC_ALL $PATH'", 0,
           "/root root nobody 65534 [] C "
           "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n",
           "");
    expect(c, "sudo -E sh -c 'echo [$SECRET]'", 0, "[s]\n", "");
    expect(c, "sudo A=1 B='x y' sh -c 'echo $A$B'", 0, "1x y\n", "");
    expect(c, "sudo sh -c 'echo ${#ATOLL_EXEC} $SUDO_COMMAND'", 0,
           "16 sh -c echo ${#ATOLL_EXEC} $SUDO_COMMAND\n", "");
    expect(c, "sudo -s echo 'a  b' '$HOME;x'", 0, "a  b /root;x\n", "");
    expect(c, "sudo -i pwd", 0, "/root\n", "");
}

static void says_what_it_does_not_do(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = with_sudo(CLIENT_SH("sudo -R / true"));
    struct run_result r;

    client_run(c, &msg, &r);
    assert_int_equal(r.exit.code, 1);
    assert_non_null(strstr(atoll_buf_str(&r.err), "option -R is not supported in a sandbox"));
    run_result_done(&r);
    expect(c, "sudo -v; sudo -k; sudo -K; sudo -kn true", 0, "", "");
}

static void others_may_not(void **state)
{
    struct atoll_am_exec_start msg = with_sudo(CLIENT_SH("sudo true"));
    struct run_result r;
    char cwd[64];

    (void)snprintf(cwd, sizeof(cwd), "%s", ((struct agent_client *)*state)->dir);
    msg.user = "12";
    msg.cwd = cwd;
    client_run(*state, &msg, &r);
    assert_int_equal(r.exit.code, 1);
    assert_non_null(strstr(atoll_buf_str(&r.err), "may not use sudo here"));
    run_result_done(&r);
}

static void signals_reach_the_command(void **state)
{
    struct agent_client *c = *state;

    expect(c,
           "sudo sh -c 'trap \"echo got; exit 5\" TERM; echo up; sleep 100 & wait' & p=$!; "
           "sleep 0.4; kill -TERM $p; wait $p",
           5, "up\ngot\n", "");
}

static void killing_the_client_ends_the_command(void **state)
{
    struct agent_client *c = *state;

    /* One that ignores the hang-up is killed a second later. */
    expect(c,
           "sudo sh -c 'trap \"\" HUP; echo $$ > pid; while :; do sleep 0.05; done' & p=$!; "
           "sleep 0.4; kill -KILL $p; sleep 1.7; kill -0 $(cat pid) 2>/dev/null || echo gone; "
           "test -d /proc/$(cat pid) || echo reaped",
           0, "gone\nreaped\n", "");
}

static void tree_kill_finds_what_sudo_started(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg =
        with_sudo(CLIENT_SH("sudo sh -c 'echo $$; setsid sleep 1000 & exec sleep 1000'"));
    struct atoll_am_signal sig = {.exec = 1, .signal = SIGKILL, .tree = 1, .who = "x"};
    struct run_result r;
    struct kept_frame k;
    pid_t pid;

    run_result_init(&r);
    (void)client_exec(c, &msg);
    k = client_wait(c, 0, ATOLL_AGENT_EXEC_OUTPUT);
    client_collect(c, &r, &k);
    kept_done(&k);
    pid = (pid_t)strtol(atoll_buf_str(&r.out), NULL, 10);
    assert_int_equal(kill(pid, 0), 0);
    client_call(c, ATOLL_AGENT_EXEC_SIGNAL, &atoll_am_signal_desc, &sig, NULL, NULL, NULL);
    client_wait_exit(c, &r);
    for (int i = 0; i < 100 && kill(pid, 0) == 0; i++)
        (void)usleep(10 * 1000);
    assert_int_equal(kill(pid, 0), -1);
    run_result_done(&r);
}

static void a_terminal_stays_one(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = with_sudo(CLIENT_SH(
        "sudo sh -c 'tty | grep -q pts && stty size; test -e /dev/tty && (: > /dev/tty) && echo ctty'; "
        "echo $?; stty -a | grep -q ' echo ' && echo restored"));
    struct run_result r;

    msg.flags = ATOLL_EXEC_PTY;
    msg.cols = 91;
    msg.rows = 17;
    client_run(c, &msg, &r);
    assert_string_equal(atoll_buf_str(&r.out), "17 91\r\nctty\r\n0\r\nrestored\r\n");
    run_result_done(&r);
}

static void garbage_on_the_socket_is_ignored(void **state)
{
    struct agent_client *c = *state;
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "/run/atoll/sudo.sock"};
    int fds[40];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fds); i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        (void)fcntl(fds[i], F_SETFL, O_NONBLOCK);
        if (connect(fds[i], (struct sockaddr *)&at, sizeof(at)) == 0)
            (void)send(fds[i], "\377\377\377\377 what is this", 17, MSG_NOSIGNAL);
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
    expect(c, "sleep 0.1; sudo echo fine", 0, "fine\n", "");
}

static void with_one_id_it_says_so(void **state)
{
    struct agent_client c;
    (void)state;

    /* Nobody must be able to make the directory. */
    assert_int_equal(system("rm -rf /run/atoll"), 0);
    start(&c, false);
    assert_int_equal(client_connect(&c).features, ATOLL_AGENT_FEATURE_FDS);
    expect(&c, "sudo true", 1, "",
           "sudo: sudo is not available here: only one user id is mapped into this sandbox\n");
    client_stop(&c);
}

static int own_run(void **state)
{
    (void)state;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", "/run", "tmpfs", 0, NULL) < 0)
        return -1;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, client_teardown)
        TEST(runs_as_root_and_as_others),
        TEST(carries_descriptors_directory_and_status),
        TEST(resets_the_environment),
        TEST(says_what_it_does_not_do),
        TEST(others_may_not),
        TEST(signals_reach_the_command),
        TEST(killing_the_client_ends_the_command),
        TEST(tree_kill_finds_what_sudo_started),
        TEST(a_terminal_stays_one),
        TEST(garbage_on_the_socket_is_ignored),
        cmocka_unit_test(with_one_id_it_says_so),
    };

    if (!is_root() || access(sudo_program(), X_OK) < 0) {
        (void)fprintf(stderr, "skipped: needs root and %s\n", sudo_program());
        return 77;
    }
    return cmocka_run_group_tests(tests, own_run, NULL);
}
