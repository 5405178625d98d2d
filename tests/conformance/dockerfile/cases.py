"""Small Dockerfiles, one for each rule of the reference. Pure data.

Each case is built by Atoll and by buildah, and both trees and configs must be equal. A case with `expected`
uses what buildah 1.28 does not know (here-documents, newer flags): its files are given here.
"""

import dataclasses
import io
import tarfile

# What the cases begin with: made by both builders, from the same Dockerfile.
BASE = """
FROM scratch
COPY busybox /bin/busybox
COPY passwd group /etc/
COPY root /
RUN ["/bin/busybox", "--install", "-s", "/bin"]
RUN mkdir -p /home/dev /var/data/deep
RUN chmod 1777 /tmp && chown 1000:1000 /home/dev
RUN echo one > /var/data/one && echo two > /var/data/two && echo deep > /var/data/deep/file
RUN ln -s data /var/link && ln -s /var/data /var/absolute
ENV BASE=yes
CMD ["sh"]
"""
BASE_FILES = {
    # What a sandbox has mounts for is copied: buildah makes it, and mounts are not part of the result.
    **{f"root/{name}/": None for name in ("dev", "proc", "sys", "run", "tmp", "usr/bin", "usr/lib", "usr/share", "home", "var")},
    **{f"root/etc/{name}": "" for name in ("hosts", "hostname", "resolv.conf")},
    "passwd": "root:x:0:0:root:/root:/bin/sh\ndev:x:1000:1000:dev:/home/dev:/bin/sh\nother:x:1001:1002::/:/bin/sh\n",
    "group": "root:x:0:\ndev:x:1000:\nothers:x:1002:dev\nextra:x:1003:dev\n",
}


@dataclasses.dataclass(frozen=True)
class Link:
    target: str


@dataclasses.dataclass(frozen=True)
class Mode:
    content: object
    mode: int


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    dockerfile: str
    files: dict = dataclasses.field(default_factory=dict)
    args: dict = dataclasses.field(default_factory=dict)
    secrets: dict = dataclasses.field(default_factory=dict)
    target: str | None = None
    # Paths and contents (a directory: None) that the result has beyond the base; else buildah says it.
    expected: dict | None = None
    # Members of the config that are expected whatever buildah says.
    config: dict = dataclasses.field(default_factory=dict)
    # Paths and members of the config at which buildah 1.28 differs from the reference, and why.
    besides: dict = dataclasses.field(default_factory=dict)


def archive(kind, **files):
    """A tar archive; kind: "", "gz", "bz2", "xz"."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{kind}") as tar:
        for name, content in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.mode = 0o640
            info.uid = 7
            tar.addfile(info, io.BytesIO(content.encode()))
    return out.getvalue()


TREE = {"src/a.txt": "a", "src/b.txt": "b", "src/c.md": "c", "src/sub/d.txt": "d", "src/.dot": "dot",
        "top.txt": "top", "other.md": "other"}
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
VOLUMES = {"/data": "Docker makes no directories for volumes", "/log": "the same"}
TAR = archive("gz", **{"x/inner.txt": "inner", "root.txt": "root"})


def case(name, dockerfile, files=None, **more):
    return Case(name, dockerfile.lstrip("\n"), files or {}, **more)


RUN = [
    case("run_shell", "FROM base\nRUN echo hello > /out\n"),
    case("run_exec", 'FROM base\nRUN ["/bin/sh", "-c", "echo $BASE > /out"]\n'),
    case("run_exec_no_shell", 'FROM base\nRUN ["/bin/echo", "$BASE"]\nRUN ["/bin/touch", "/$BASE"]\n'),
    case("run_continued", "FROM base\nRUN echo one > /out && \\\n    echo two >> /out && \\\n\n    # comment\n    echo three >> /out\n"),
    case("run_quotes", "FROM base\nRUN echo \"a  b\" 'c  $BASE' \"$BASE\" > /out\n"),
    case("run_variables_of_the_shell", "FROM base\nRUN X=1; echo \"$X ${BASE} ${NONE:-none}\" > /out\n"),
    case("run_umask_and_modes", "FROM base\nRUN touch /f && mkdir /d && umask 077 && touch /g && mkdir /e\n"),
    case("run_special_modes", "FROM base\nRUN cp /bin/busybox /suid && chmod 4755 /suid && mkdir /sticky && chmod 3777 /sticky\n"),
    case("run_chmod_of_base", "FROM base\nRUN chmod 600 /var/data/one && chown 1000:1002 /var/data/two\n"),
    case("run_removes_file", "FROM base\nRUN rm /var/data/one\n"),
    case("run_removes_directory", "FROM base\nRUN rm -r /var/data\n"),
    case("run_remakes_directory", "FROM base\nRUN rm -r /var/data && mkdir /var/data && touch /var/data/new\n"),
    case("run_remakes_later", "FROM base\nRUN rm -r /var/data\nRUN mkdir -p /var/data/deep && touch /var/data/deep/new\n"),
    case("run_file_becomes_directory", "FROM base\nRUN rm /var/data/one && mkdir /var/data/one && touch /var/data/one/in\n"),
    case("run_directory_becomes_link", "FROM base\nRUN rm -r /var/data/deep && ln -s ../one /var/data/deep\n"),
    case("run_renames_file", "FROM base\nRUN mv /var/data/one /var/data/uno\n"),
    case("run_renames_directory", "FROM base\nRUN mv /var/data /var/moved\n"),
    case("run_links", "FROM base\nRUN echo x > /f && ln /f /hard && ln -s f /soft && ln -s /nowhere /broken\n"),
    case("run_fifo", "FROM base\nRUN mkfifo /pipe\n"),
    case("run_names", "FROM base\nRUN touch '/with space' '/ünïcode' \"/quo'te\" '/back\\slash' \"$(printf '/new\\nline')\"\n"),
    case("run_sees_earlier", "FROM base\nRUN echo 1 > /a\nRUN cp /a /b && echo 2 > /a\nRUN cat /a /b > /c\n"),
    case("run_tmp_is_kept", "FROM base\nRUN echo x > /tmp/file && mkdir -p /run/dir\n"),
    case("run_home_of_user", "FROM base\nUSER dev\nRUN echo $HOME > /tmp/home\n"),
    case("run_empty_result", "FROM base\nRUN true\nRUN :\n"),
    case("run_no_descriptors", "FROM base\nRUN ls /proc/self/fd | wc -l > /out\n", expected={"/out": "4\n"}),
    case("instructions_in_lower_case", "from base\nrun echo x > /out\nenv A=b\nlabel c=d\n"),
    case("leading_white_space", "  FROM base\n   RUN echo x > /out\n\t ENV A=b\n"),
    case("escape_directive", "# escape=`\nFROM base\nRUN echo one `\n  two > /out\nENV A=a`$b\n",
         besides={"Env": "buildah takes the character for itself"}, config={"Env": [PATH, "BASE=yes", "A=a$b"]}),
    case("syntax_directive", "# syntax=docker/dockerfile:1\nFROM base\nRUN echo x > /out\n"),
    case("shell_changes", 'FROM base\nSHELL ["/bin/sh", "-ec"]\nRUN false || echo $0 > /out\nRUN echo $- > /flags\nCMD echo x\n',
         besides={"Cmd": "buildah takes no notice of SHELL here"}, config={"Cmd": ["/bin/sh", "-ec", "echo x"]}),
]

VARIABLES = [
    case("env_one", "FROM base\nENV A=b\nRUN echo $A > /out\n"),
    case("env_several", "FROM base\nENV A=1 B=2 \\\n    C=3\nRUN echo $A$B$C > /out\n"),
    case("env_old_form", "FROM base\nENV A some  words here\nRUN echo \"$A\" > /out\n"),
    case("env_quotes", "FROM base\nENV A=\"x y\" B='p $A' C=q\\ r D=\"$A\"\nRUN env | sort | grep '^[A-D]=' > /out\n"),
    case("env_order", "FROM base\nENV A=old\nENV A=new B=$A\nRUN echo $A $B > /out\n"),
    case("env_replaces", "FROM base\nENV BASE=no PATH=/x:$PATH\nRUN echo $BASE $PATH > /out\n",
         besides={"Env": "buildah moves a replaced variable to the end"},
         config={"Env": ["PATH=/x:" + PATH.removeprefix("PATH="), "BASE=no"]}),
    case("env_defaults", "FROM base\nENV E=\nENV A=${E:-d} B=${N:-d} C=${BASE:+alt} D=${N:+alt}\n"),
    case("env_escaped", "FROM base\nENV A=\\$BASE B='$BASE' C=\"\\$BASE\" F=\\\\$BASE\n"),
    case("env_empty", "FROM base\nENV A= B=\"\"\nRUN echo \"[$A$B]\" > /out\n"),
    case("arg_default", "FROM base\nARG A=default\nRUN echo $A > /out\n"),
    case("arg_given", "FROM base\nARG A=default\nRUN echo $A > /out\n", args={"A": "given"}),
    case("arg_without_value", "FROM base\nARG A\nRUN echo \"[$A]\" > /out\n"),
    case("arg_before_its_line", "FROM base\nRUN echo \"[$A]\" > /before\nARG A\nRUN echo \"[$A]\" > /after\n", args={"A": "given"}),
    case("arg_and_env", "FROM base\nARG A=arg\nENV A=env\nRUN echo $A > /out\n", args={"A": "given"}),
    case("arg_into_env", "FROM base\nARG V=1\nENV VERSION=v${V}\nRUN echo $VERSION > /out\n", args={"V": "2"}),
    case("arg_in_from", "ARG B=base\nFROM $B\nRUN echo x > /out\n"),
    case("arg_global", "ARG A=global\nFROM base\nRUN echo \"[$A]\" > /before\nARG A\nRUN echo \"[$A]\" > /after\n"),
    case("arg_of_arg", "FROM base\nARG A=1\nARG B=${A}2\nRUN echo $B > /out\n"),
    case("arg_ends_with_stage", "FROM base AS one\nARG A=x\nFROM base\nRUN echo \"[$A]\" > /out\n"),
    case("variables_in_paths", "FROM base\nENV D=/opt/dir\nWORKDIR $D/${BASE}\nCOPY top.txt ${D}/t-$BASE\n", TREE),
]

PLACES = [
    case("workdir_made", "FROM base\nWORKDIR /new/dir\nRUN pwd > out\n"),
    case("workdir_relative", "FROM base\nWORKDIR /a\nWORKDIR b\nWORKDIR c/../d\nRUN pwd > /out\n"),
    case("workdir_exists", "FROM base\nWORKDIR /var/data\nRUN echo x > new\n"),
    case("workdir_at_end", "FROM base\nRUN echo x > /out\nWORKDIR /last/one\n"),
    case("workdir_of_user", "FROM base\nUSER dev\nWORKDIR /home/dev/app\nRUN touch file\n"),
    case("user_by_name", "FROM base\nUSER dev\nRUN id > /tmp/id && touch /tmp/file\n"),
    case("user_by_id", "FROM base\nUSER 1001\nRUN id -u > /tmp/id && touch /tmp/file\n"),
    case("user_with_group", "FROM base\nUSER dev:extra\nRUN id -g > /tmp/id && touch /tmp/file\n"),
    case("user_unknown_id", "FROM base\nUSER 4242:4243\nRUN id -u > /tmp/id && id -g >> /tmp/id && touch /tmp/file\n"),
    case("user_back_to_root", "FROM base\nUSER dev\nRUN touch /tmp/a\nUSER root\nRUN touch /tmp/b\n"),
]

COPIES = [
    case("copy_file", "FROM base\nCOPY top.txt /\n", TREE),
    case("copy_file_as", "FROM base\nCOPY top.txt /renamed.txt\n", TREE),
    case("copy_file_to_new_directory", "FROM base\nCOPY top.txt /new/dir/\n", TREE),
    case("copy_file_to_existing_directory", "FROM base\nCOPY top.txt /var/data\n", TREE),
    case("copy_file_makes_parents", "FROM base\nCOPY top.txt /p/q/r.txt\n", TREE),
    case("copy_several", "FROM base\nCOPY top.txt other.md /many/\n", TREE),
    case("copy_directory", "FROM base\nCOPY src /dest\n", TREE),
    case("copy_directory_slash", "FROM base\nCOPY src/ /dest/\n", TREE),
    case("copy_directory_and_file", "FROM base\nCOPY src top.txt /dest/\n", TREE),
    case("copy_everything", "FROM base\nCOPY . /ctx\n", TREE),
    case("copy_merges", "FROM base\nCOPY data /var/data\n", {"data/one": "replaced", "data/new": "new", "data/deep/more": "m"}),
    case("copy_pattern", "FROM base\nCOPY src/*.txt /dest/\n", TREE),
    case("copy_pattern_question", "FROM base\nCOPY src/?.md /dest/\n", TREE),
    case("copy_pattern_set", "FROM base\nCOPY src/[ab].txt /dest/\n", TREE),
    case("copy_pattern_of_directories", "FROM base\nCOPY s*c /dest/\n", TREE),
    case("copy_json", 'FROM base\nCOPY ["with space.txt", "/dest dir/"]\n', {"with space.txt": "x"}),
    case("copy_relative", "FROM base\nWORKDIR /work\nCOPY top.txt sub/\nCOPY other.md .\n", TREE),
    case("copy_replaces_file", "FROM base\nRUN echo old > /f && chmod 600 /f\nCOPY top.txt /f\n", TREE),
    case("copy_modes", "FROM base\nCOPY . /d/\n", {"run.sh": Mode("#!/bin/sh\n", 0o755), "private": Mode("x", 0o600), "dir/f": "x"}),
    case("copy_chown_names", "FROM base\nCOPY --chown=dev:others src /dest\n", TREE),
    case("copy_chown_name", "FROM base\nCOPY --chown=dev top.txt /dest/\n", TREE),
    case("copy_chown_ids", "FROM base\nCOPY --chown=77:88 top.txt /dest/x\n", TREE),
    case("copy_chown_id", "FROM base\nCOPY --chown=1001 top.txt /x\n", TREE),
    case("copy_chmod", "FROM base\nCOPY --chmod=640 top.txt /x\n", TREE),
    case("copy_not_as_user", "FROM base\nUSER dev\nCOPY top.txt /x\n", TREE),
    case("copy_links_in_directory", "FROM base\nCOPY src /dest\n", {"src/file": "x", "src/soft": Link("file"), "src/broken": Link("/nowhere"), "src/up": Link("../../etc")}),
    case("copy_through_link", "FROM base\nCOPY top.txt /var/link/\nCOPY other.md /var/absolute/\n", TREE),
    case("copy_to_link_of_directory", "FROM base\nCOPY src /var/link\n", TREE),
    case("copy_empty_directory", "FROM base\nCOPY src /dest\n", {"src/empty/": None, "src/f": "x"}),
    case("copy_large", "FROM base\nCOPY big /big\n", {"big": "0123456789abcdef" * 65536}),
    case("copy_dotfiles", "FROM base\nCOPY .* /dots/\n", {".one": "1", ".two": "2", "three": "3"}),
    case("ignore_file", "FROM base\nCOPY . /ctx\n", {**TREE, ".dockerignore": "*.md\nsrc/sub\n"}),
    case("ignore_except", "FROM base\nCOPY . /ctx\n", {**TREE, ".dockerignore": "src\n!src/a.txt\n# comment\n"}),
    case("ignore_deep", "FROM base\nCOPY . /ctx\n", {**TREE, ".dockerignore": "**/*.txt\n"}),
]

STAGES = [
    case("stage_by_name", "FROM base AS build\nRUN echo made > /result\nFROM base\nCOPY --from=build /result /final\n"),
    case("stage_by_number", "FROM base\nRUN echo made > /result\nFROM base\nCOPY --from=0 /result /final\n"),
    case("stage_as_base", "FROM base AS common\nENV A=common\nRUN echo c > /c\nFROM common\nRUN echo $A > /d\n"),
    case("stage_to_scratch", "FROM base AS build\nRUN mkdir -p /o/p && echo x > /o/p/f\nFROM scratch\nCOPY --from=build /o /\n"),
    case("stage_target", "FROM base AS one\nRUN echo 1 > /one\nFROM base AS two\nRUN echo 2 > /two\n", target="one"),
    case("stage_not_needed", "FROM base AS broken\nRUN false\nFROM base\nRUN echo x > /out\n", expected={"/out": "x\n"}),
    case("stage_patterns", "FROM base AS build\nRUN mkdir /o && touch /o/a.x /o/b.x /o/c.y\nFROM base\nCOPY --from=build /o/*.x /dest/\n"),
    case("stage_directory", "FROM base AS build\nRUN chown -R 1000:1000 /var/data\nFROM base\nCOPY --from=build /var/data /dest\n",
         besides={"/dest": "a new directory has the owner of its source, as with BuildKit"}),
    case("stage_of_image", "FROM base\nCOPY --from=base /var/data/one /copied\n"),
    case("stages_in_parallel", "FROM base AS a\nRUN echo a > /a\nFROM base AS b\nRUN echo b > /b\nFROM base AS c\nRUN echo c > /c\nFROM base\nCOPY --from=a /a /\nCOPY --from=b /b /\nCOPY --from=c /c /\n"),
    case("stage_chown", "FROM base AS build\nRUN echo x > /f\nFROM base\nCOPY --from=build --chown=dev:dev /f /g\n"),
    case("stage_of_stage", "FROM base AS a\nRUN echo 1 > /f\nFROM a AS b\nRUN echo 2 >> /f\nFROM b\nRUN echo 3 >> /f\n"),
    case("scratch_only", "FROM scratch\nCOPY top.txt /a/b/c\nENV X=y\n", TREE),
]

ADDS = [
    case("add_file", "FROM base\nADD top.txt /dest/\n", TREE),
    case("add_directory", "FROM base\nADD src /dest\n", TREE),
    case("add_archive_gz", "FROM base\nADD files.tar.gz /dest\n", {"files.tar.gz": TAR}),
    case("add_archive_plain", "FROM base\nADD files.tar /dest/\n", {"files.tar": archive("", **{"a/b": "x"})}),
    case("add_archive_bz2", "FROM base\nADD files.tar.bz2 /dest/\n", {"files.tar.bz2": archive("bz2", **{"a/b": "x"})}),
    case("add_archive_xz", "FROM base\nADD files.tar.xz /dest/\n", {"files.tar.xz": archive("xz", **{"a/b": "x"})}),
    case("add_archive_by_content", "FROM base\nADD noname /dest/\n", {"noname": TAR}),
    case("add_not_an_archive", "FROM base\nADD fake.tar.gz /dest/\n", {"fake.tar.gz": "not an archive"}),
    case("add_chown", "FROM base\nADD --chown=dev:others top.txt /dest/\n", TREE),
    case("copy_keeps_archive", "FROM base\nCOPY files.tar.gz /dest/\n", {"files.tar.gz": TAR}),
]

CONFIGS = [
    case("cmd_shell", "FROM base\nCMD echo $X\n"),
    case("cmd_exec", 'FROM base\nCMD ["a", "b c"]\n'),
    case("entrypoint_exec", 'FROM base\nENTRYPOINT ["/bin/echo", "x"]\nCMD ["y"]\n'),
    case("entrypoint_shell", "FROM base\nENTRYPOINT exec top\n"),
    case("entrypoint_drops_cmd", 'FROM base\nENTRYPOINT ["/bin/echo"]\n'),
    case("label_several", 'FROM base\nLABEL a=1 "b c"="d e"\nLABEL a=2 multi="x \\\n y"\n'),
    case("expose", "FROM base\nEXPOSE 80 443/tcp 53/udp\nEXPOSE 9000-9002\n",
         besides={"ExposedPorts": "buildah keeps ranges"},
         config={"ExposedPorts": {port: {} for port in ("80/tcp", "443/tcp", "53/udp", "9000/tcp", "9001/tcp", "9002/tcp")}}),
    case("volume_json", 'FROM base\nVOLUME ["/data", "/log"]\n', besides=VOLUMES),
    case("volume_words", "FROM base\nVOLUME /data /log\n", besides=VOLUMES),
    case("stopsignal", "FROM base\nSTOPSIGNAL SIGINT\n"),
    case("healthcheck", "FROM base\nHEALTHCHECK --interval=5s --timeout=3s --start-period=1m --retries=4 CMD wget -q x\n"),
    case("healthcheck_exec", 'FROM base\nHEALTHCHECK CMD ["true", "x"]\n'),
    case("healthcheck_none", "FROM base\nHEALTHCHECK CMD true\nHEALTHCHECK NONE\n"),
    case("onbuild_kept", "FROM base\nONBUILD RUN echo x > /triggered\nONBUILD ENV A=b\n"),
    case("onbuild_runs", "FROM base AS parent\nONBUILD RUN echo x > /triggered\nONBUILD ENV A=b\nFROM parent\nRUN echo $A > /out\n"),
    case("maintainer", "FROM base\nMAINTAINER a b <a@b>\n"),
    case("comments", "# first\nFROM base\n# second\nRUN echo '# kept' > /out # not a comment\n"),
]

MOUNTS = [
    case("mount_cache", "FROM base\nRUN --mount=type=cache,target=/cache echo x > /cache/f && cp /cache/f /out\nRUN --mount=type=cache,target=/cache cp /cache/f /again\n"),
    case("mount_secret", "FROM base\nRUN --mount=type=secret,id=token wc -c < /run/secrets/token > /out\n", secrets={"token": "hidden-value"},
         expected={"/out": "12\n"}),
    case("mount_secret_target", "FROM base\nRUN --mount=type=secret,id=token,target=/key,mode=0440 wc -c < /key > /out\n", secrets={"token": "hidden-value"},
         expected={"/out": "12\n"}),
    case("mount_secret_missing", "FROM base\nRUN --mount=type=secret,id=nothing test ! -e /run/secrets/nothing && echo x > /out\n", expected={"/out": "x\n"}),
    case("mount_bind_context", "FROM base\nRUN --mount=type=bind,target=/ctx cp /ctx/top.txt /out\n", TREE),
    case("mount_bind_source", "FROM base\nRUN --mount=type=bind,source=src,target=/ctx cat /ctx/a.txt /ctx/b.txt > /out\n", TREE),
    case("mount_bind_stage", "FROM base AS build\nRUN echo made > /result\nFROM base\nRUN --mount=type=bind,from=build,target=/b cp /b/result /out\n"),
    case("mount_bind_read_only", "FROM base\nRUN --mount=type=bind,target=/ctx ! touch /ctx/new 2>/dev/null && echo refused > /out\n", TREE,
         expected={"/out": "refused\n"}),
    case("mount_tmpfs", "FROM base\nRUN --mount=type=tmpfs,target=/scratch echo x > /scratch/f && echo done > /out\n"),
]

HEREDOCS = [
    case("heredoc_run", "FROM base\nRUN <<EOF\necho one > /out\necho two >> /out\nEOF\n", expected={"/out": "one\ntwo\n"}),
    case("heredoc_run_shebang", "FROM base\nRUN <<EOF\n#!/bin/awk -f\nBEGIN { print \"awk\" > \"/out\" }\nEOF\n", expected={"/out": "awk\n"}),
    case("heredoc_run_input", "FROM base\nRUN cat > /out <<EOF\n$BASE\nEOF\n", expected={"/out": "yes\n"}),
    case("heredoc_run_quoted", "FROM base\nRUN cat > /out <<'EOF'\n$BASE\nEOF\n", expected={"/out": "$BASE\n"}),
    case("heredoc_run_two", "FROM base\nRUN cat <<A > /a && cat <<B > /b\none\nA\ntwo\nB\n", expected={"/a": "one\n", "/b": "two\n"}),
    case("heredoc_run_tabs", "FROM base\nRUN <<-EOF\n\techo x > /out\n\tEOF\n", expected={"/out": "x\n"}),
    case("heredoc_copy", "FROM base\nCOPY <<EOF /etc/motd\nhello $BASE\nEOF\n", expected={"/etc/motd": "hello yes\n"}),
    case("heredoc_copy_quoted", 'FROM base\nCOPY <<"EOF" /etc/motd\nhello $BASE\nEOF\n', expected={"/etc/motd": "hello $BASE\n"}),
    case("heredoc_copy_two", "FROM base\nCOPY <<a.txt <<b.txt /dest/\none\na.txt\ntwo\nb.txt\n", expected={"/dest": None, "/dest/a.txt": "one\n", "/dest/b.txt": "two\n"}),
    case("heredoc_copy_with_file", "FROM base\nCOPY top.txt <<more.txt /dest/\nmore\nmore.txt\n", TREE,
         expected={"/dest": None, "/dest/top.txt": "top", "/dest/more.txt": "more\n"}),
    case("copy_parents", "FROM base\nCOPY --parents src/sub/d.txt /dest/\n", TREE,
         expected={"/dest": None, "/dest/src": None, "/dest/src/sub": None, "/dest/src/sub/d.txt": "d"}),
    case("copy_exclude", "FROM base\nCOPY --exclude=*.md src /dest/\n", TREE,
         expected={"/dest": None, "/dest/a.txt": "a", "/dest/b.txt": "b", "/dest/.dot": "dot", "/dest/sub": None, "/dest/sub/d.txt": "d"}),
    case("copy_link", "FROM base\nCOPY --link top.txt /dest/\n", TREE, expected={"/dest": None, "/dest/top.txt": "top"}),
]

CASES = RUN + VARIABLES + PLACES + COPIES + STAGES + ADDS + CONFIGS + MOUNTS + HEREDOCS
