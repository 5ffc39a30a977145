# SPDX-License-Identifier: MIT OR Apache-2.0
"""Servers that fork, or wait for signals: each must answer every request, whatever is done to it meanwhile, and end as without the preload."""
import concurrent.futures
import grp
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

from harness import Missing, check, equal
from hosts_common import Server, both, host, need, place


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(port, path="/"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        return answer.read().decode()


def answers(port, path="/"):
    try:
        get(port, path)
        return True
    except OSError:
        return False


def load(port, path, wanted, requests=200, meanwhile=lambda: None):
    """All requests by eight clients; `meanwhile` runs beside them."""
    with concurrent.futures.ThreadPoolExecutor(9) as pool:
        beside = pool.submit(meanwhile)
        replies = list(pool.map(lambda _: get(port, path), range(requests)))
        beside.result()
    wrong = [reply for reply in replies if reply != wanted]
    check(not wrong, f"{len(wrong)} of {requests} wrong answers, the first: {wrong[:1]}")


@host("redis")
def redis():
    """A loop of BGSAVE and AOF rewrites: each forks a child that ends by _exit."""
    server, client = need("redis-server", "redis-cli")
    digests = []

    def serve(directory, preload):
        port = free_port()

        def ask(*words):
            return subprocess.run([client, "-p", str(port), *words], capture_output=True, text=True, check=True).stdout.strip()

        def ready():
            return subprocess.run([client, "-p", str(port), "ping"], capture_output=True, check=False).stdout == b"PONG\n"

        options = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", directory, "--enable-debug-command", "yes"]
        with Server([server, *options], directory, preload, ready) as running:
            ask("debug", "populate", "100000", "key", "50")
            for _ in range(8):
                check("Background saving started" in ask("bgsave"), "BGSAVE did not start")
                ask("eval", "local s = 0 for i = 1, 2000000 do s = s + i end return s", "0")
                until = time.monotonic() + 60
                while "rdb_bgsave_in_progress:1" in ask("info", "persistence"):
                    check(time.monotonic() < until, "BGSAVE does not end")
                    time.sleep(0.02)
                check("rdb_last_bgsave_status:ok" in ask("info", "persistence"), "BGSAVE failed")
            digest = ask("debug", "digest")
            ask("debug", "reload")
            equal(ask("debug", "digest"), digest, "the data after a reload")
            digests.append(digest)
            running.end(signal.SIGTERM)
        (directory / "dump.rdb").unlink(missing_ok=True)

    told = both("redis", serve, least=5, seconds=0.3)
    equal(digests[0], digests[1], "the data")
    if share := re.search(r"([\d.]+)% of the memory unexplained", told):
        check(float(share[1]) < 5, told)
    return told


NGINX = """
daemon off; master_process on; worker_processes 2; pid {directory}/pid; error_log {directory}/error.log notice;
events {{ worker_connections 64; }}
http {{ access_log off; gzip on; gzip_types *; gzip_comp_level 9; client_body_temp_path {directory}/b; proxy_temp_path {directory}/p;
  fastcgi_temp_path {directory}/f; uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
  server {{ listen 127.0.0.1:{port}; location / {{ root {directory}/www; }} }} }}
"""


@host("nginx")
def nginx():
    """Reloads under load: old workers end while new ones begin."""
    server = need("nginx")

    def serve(directory, preload):
        port = free_port()
        body = "\n".join(f"line {i}" for i in range(5000))
        (directory / "www").mkdir(exist_ok=True)
        (directory / "www" / "page").write_text(body)
        for path in (directory, directory / "www"):
            os.chmod(path, 0o777)
        (directory / "conf").write_text(NGINX.format(directory=directory, port=port))
        (directory / "error.log").unlink(missing_ok=True)
        with Server([server, "-c", directory / "conf"], directory, preload, lambda: answers(port, "/page")) as running:

            def reload():
                for _ in range(5):
                    running.process.send_signal(signal.SIGHUP)
                    time.sleep(0.4)

            load(port, "/page", body, 1500, reload)
            running.end(signal.SIGQUIT)
        log = (directory / "error.log").read_text()
        wrong = [line for line in log.splitlines() if "[notice]" not in line]
        check(not wrong, f"nginx complains: {wrong[:3]}")

    return both("nginx", serve, least=1, seconds=0.0)


PAGE = "<?php $s = 0; for ($i = 0; $i < 200000; $i++) { $s = ($s * 31 + $i) % 1000003; } echo 'sum ', $s;"
PAGE_SAYS = "sum " + str(__import__("functools").reduce(lambda s, i: (s * 31 + i) % 1000003, range(200000), 0))


@host("php")
def php():
    """PHP's own server with eight forked workers."""
    program = need("php")

    def serve(directory, preload):
        port = free_port()
        (directory / "index.php").write_text(PAGE)
        command = [program, "-d", "opcache.enable=0", "-S", f"127.0.0.1:{port}", "-t", directory]
        with Server(command, directory, preload, lambda: answers(port), PHP_CLI_SERVER_WORKERS="8") as running:
            load(port, "/", PAGE_SAYS, 400)
            running.end(signal.SIGINT, group=True)
        check("Fatal" not in running.text(), "PHP complains")

    return both("php", serve, least=2, seconds=0.3)


APACHE = """
ServerRoot /usr/lib/apache2
ServerName localhost
PidFile {directory}/pid
Listen 127.0.0.1:{port}
ErrorLog {directory}/apache.log
DefaultRuntimeDir {directory}
Mutex file:{directory} default
User {user}
Group {group}
LoadModule mpm_prefork_module modules/mod_mpm_prefork.so
LoadModule authz_core_module modules/mod_authz_core.so
LoadModule dir_module modules/mod_dir.so
LoadModule php_module {php}
StartServers 4
MaxRequestsPerChild 50
DocumentRoot {directory}/www
DirectoryIndex index.php
<FilesMatch "\\.php$">
  SetHandler application/x-httpd-php
</FilesMatch>
"""


def apache_place(directory):
    """Makes room for the pages and the log. Returns whom the children run as."""
    (directory / "www").mkdir(exist_ok=True)
    for path in (directory, directory / "www"):
        os.chmod(path, 0o777)
    (directory / "apache.log").unlink(missing_ok=True)
    user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    return user, grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name


@host("apache")
def apache():
    """Prefork with PHP inside; children end after 50 requests, and all of them at a graceful restart."""
    server = need("apache2")
    modules = sorted(name for name in os.listdir("/usr/lib/apache2/modules") if name.startswith("libphp"))
    if not modules:
        raise Missing("mod_php is not installed")

    def serve(directory, preload):
        port = free_port()
        user, group = apache_place(directory)
        (directory / "www" / "index.php").write_text(PAGE)
        (directory / "conf").write_text(APACHE.format(directory=directory, port=port, user=user, group=group, php=f"modules/{modules[-1]}"))
        command = [server, "-d", directory, "-f", directory / "conf", "-DFOREGROUND"]
        with Server(command, directory, preload, lambda: answers(port)) as running:

            def restart():
                """Apache forgets a signal that comes while it restarts, so each waits for the one before."""
                for done in range(1, 4):
                    time.sleep(0.5)
                    running.process.send_signal(signal.SIGUSR1)
                    until = time.monotonic() + 20
                    while (directory / "apache.log").read_text().count("resuming normal operations") <= done:
                        check(time.monotonic() < until, "apache does not restart")
                        time.sleep(0.02)

            load(port, "/", PAGE_SAYS, 400, restart)
            running.end(signal.SIGTERM)
        log = (directory / "apache.log").read_text()
        check("exit signal" not in log, f"a child was ended by a signal: {log[-500:]}")

    return both("apache", serve, least=3, seconds=0.3)


SIGWAIT = """
import http.server, signal, sys, threading
every = signal.valid_signals()
signal.pthread_sigmask(signal.SIG_BLOCK, every)

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = str(sum(i * 31 % 1000003 for i in range(100000))).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
while (number := signal.sigwait(every)) == signal.SIGHUP:
    print("reload", flush=True)
print("ends at", signal.Signals(number).name, flush=True)
sys.exit(number != signal.SIGTERM)
"""


@host("sigwait")
def sigwait():
    """A server that blocks all signals before it makes its threads, and ends at any that it does not know."""
    program = need("python3")
    said = []

    def serve(directory, preload):
        port = free_port()
        with Server([program, "-c", SIGWAIT, port], directory, preload, lambda: answers(port)) as running:

            def reload():
                for done in range(1, 4):
                    running.process.send_signal(signal.SIGHUP)
                    until = time.monotonic() + 20
                    while running.text().count("reload") < done:
                        check(time.monotonic() < until, "the server does not take SIGHUP")
                        time.sleep(0.02)

            load(port, "/", str(sum(i * 31 % 1000003 for i in range(100000))), 200, reload)
            running.end(signal.SIGTERM)
        said.append(running.text())

    told = both("sigwait", serve, least=1, seconds=0.3)
    equal(said[1], said[0], "what the server says")
    return told


EVENT = """
ServerRoot /usr/lib/apache2
ServerName localhost
PidFile {directory}/pid
Listen 127.0.0.1:{port}
ErrorLog {directory}/apache.log
DefaultRuntimeDir {directory}
Mutex file:{directory} default
User {user}
Group {group}
LoadModule mpm_event_module modules/mod_mpm_event.so
LoadModule authz_core_module modules/mod_authz_core.so
StartServers 2
EnableMMAP Off
EnableSendfile Off
DocumentRoot {directory}/www
"""


@host("apache-event")
def apache_event():
    """Its threads block all signals but one; of each process a thread waits for all of them."""
    server = need("apache2")

    def serve(directory, preload):
        port = free_port()
        body = "\n".join(f"line {i}" for i in range(200000))
        user, group = apache_place(directory)
        (directory / "www" / "page").write_text(body)
        (directory / "conf").write_text(EVENT.format(directory=directory, port=port, user=user, group=group))
        command = [server, "-d", directory, "-f", directory / "conf", "-DFOREGROUND"]
        with Server(command, directory, preload, lambda: answers(port, "/page")) as running:
            load(port, "/page", body, 400)
            running.end(signal.SIGTERM)
        log = (directory / "apache.log").read_text()
        check("exit signal" not in log, f"a child was ended by a signal: {log[-500:]}")

    return both("apache-event", serve, least=1, seconds=0.1)
