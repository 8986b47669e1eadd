//! A real Chromium, told what to do through its driver.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sluicegate_testkit::{HttpRequest, STEP_TIMEOUT, eventually, raw_socket, watchdog};
use tempfile::TempDir;

/// A browser with a profile of its own. Dropping it ends it.
pub struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    _profile: TempDir,
}

/// Starting a browser on a busy machine takes longest.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Starts the driver, and returns the port that it chose.
///
/// It chooses a port that is free for IPv4, takes the same one for IPv6, and ends when somebody else
/// has that: so it gets a few attempts.
fn start_driver() -> (Child, u16) {
    const ATTEMPTS: usize = 5;
    for _ in 0..ATTEMPTS {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("chromedriver: {error} (Debian's packages chromium and chromium-driver)")
            });
        watchdog::watch(driver.id());
        let mut lines = BufReader::new(driver.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let started = lines.find(|line| line.contains("started successfully on port"));
        let Some(started) = started else {
            driver.wait().unwrap();
            continue;
        };
        std::thread::spawn(move || lines.for_each(drop));
        let port = started.rsplit(' ').next().unwrap();
        return (driver, port.trim_end_matches('.').parse().unwrap());
    }
    panic!("the driver ended {ATTEMPTS} times before it was ready");
}

impl Browser {
    pub fn start() -> Self {
        let (driver, port) = start_driver();
        let profile = watchdog::temporary_directory("chromium-");
        let arguments = [
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--force-prefers-reduced-motion".to_owned(),
            // No other host can be reached.
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1".to_owned(),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        } } });
        let mut browser = Self {
            driver,
            address: ([127, 0, 0, 1], port).into(),
            session: String::new(),
            _profile: profile,
        };
        let session = browser.ask("POST", "/session", &wanted);
        browser.session = format!("/session/{}", session["sessionId"].as_str().unwrap());
        browser.size(1280, 900, 1.0);
        browser
    }

    pub fn open(&self, address: SocketAddr) {
        self.tell("/url", &json!({ "url": format!("http://{address}/") }));
    }

    /// The window as the page sees it.
    pub fn size(&self, width: u32, height: u32, scale: f64) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 500 });
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// The system's colour scheme: `light` or `dark`.
    pub fn prefer(&self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &features);
    }

    /// The value that a piece of script returns.
    pub fn run(&self, script: &str) -> Value {
        self.tell("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn wait_for(&self, expression: &str) {
        let shown = || self.run("return document.body.innerText");
        let deadline = Instant::now() + STEP_TIMEOUT;
        while self.run(&format!("return Boolean({expression})")) != true {
            assert!(
                Instant::now() < deadline,
                "never: {expression}; the page shows:\n{}",
                shown().as_str().unwrap()
            );
            // bounded wait: the deadline is above
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn text(&self, selector: &str) -> String {
        self.run(&format!(
            "return document.querySelector({})?.textContent ?? ''",
            json!(selector)
        ))
        .as_str()
        .unwrap()
        .to_owned()
    }

    /// Clicks as a person does: on what can be seen and is not covered.
    pub fn click(&self, selector: &str) {
        self.on_element(selector, "click", &json!({}));
    }

    /// Types into a field, in place of what was there.
    pub fn fill(&self, selector: &str, text: &str) {
        self.on_element(selector, "clear", &json!({}));
        self.on_element(selector, "value", &json!({ "text": text }));
    }

    /// Presses keys where the focus is.
    pub fn press(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| {
            let key = key.to_string();
            [
                json!({ "type": "keyDown", "value": key }),
                json!({ "type": "keyUp", "value": key }),
            ]
        });
        let strokes: Vec<Value> = strokes.collect();
        self.tell(
            "/actions",
            &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": strokes }] }),
        );
    }

    /// An element may be drawn again between finding and using it, so this is tried until it works.
    fn on_element(&self, selector: &str, what: &str, body: &Value) {
        let find = json!({ "using": "css selector", "value": selector });
        eventually(&format!("{what} {selector}"), || {
            let Ok(found) = self.try_ask("POST", &format!("{}/element", self.session), &find)
            else {
                return false;
            };
            let element = found
                .as_object()
                .and_then(|found| found.values().next())
                .and_then(Value::as_str)
                .unwrap();
            self.try_ask(
                "POST",
                &format!("{}/element/{element}/{what}", self.session),
                body,
            )
            .is_ok()
        });
    }

    /// Keeps a picture of the whole page beside the build.
    pub fn picture(&self, name: &str) {
        self.take_picture(name, &json!({ "captureBeyondViewport": true }));
    }

    /// Keeps a picture of what fits on the screen beside the build, and returns where it is.
    pub fn picture_of_screen(&self, name: &str) -> PathBuf {
        self.take_picture(name, &json!({}))
    }

    fn take_picture(&self, name: &str, options: &Value) -> PathBuf {
        let picture = self.devtools("Page.captureScreenshot", options);
        let bytes = STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        assert!(bytes.starts_with(b"\x89PNG"));
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join(format!("{name}.png"));
        std::fs::write(&file, bytes).unwrap();
        println!("a picture of the dashboard: {}", file.display());
        file
    }

    /// Everything that the page wrote to its console as a warning or an error.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.tell("/se/log", &json!({ "type": "browser" }));
        let bad = log
            .as_array()
            .unwrap()
            .iter()
            .filter(|line| line["level"] == "SEVERE" || line["level"] == "WARNING");
        bad.map(|line| line["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The address of every request that the page has made.
    pub fn requested(&self) -> Vec<String> {
        let log = self.tell("/se/log", &json!({ "type": "performance" }));
        let messages = log.as_array().unwrap().iter().map(|line| {
            let message: Value = serde_json::from_str(line["message"].as_str().unwrap()).unwrap();
            message["message"].clone()
        });
        let sent = messages.filter(|message| message["method"] == "Network.requestWillBeSent");
        sent.filter_map(|message| {
            message["params"]["request"]["url"]
                .as_str()
                .map(str::to_owned)
        })
        .collect()
    }

    /// Seconds that the page has kept a processor busy, however many others wanted it.
    pub fn worked(&self) -> f64 {
        self.devtools(
            "Performance.enable",
            &json!({ "timeDomain": "threadTicks" }),
        );
        let metrics = self.devtools("Performance.getMetrics", &json!({}));
        let metrics = metrics["metrics"].as_array().unwrap();
        metrics
            .iter()
            .find(|metric| metric["name"] == "TaskDuration")
            .and_then(|metric| metric["value"].as_f64())
            .unwrap()
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.tell(
            "/goog/cdp/execute",
            &json!({ "cmd": command, "params": parameters }),
        )
    }

    fn tell(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("{}{path}", self.session), body)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_ask(method, path, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// One question to the driver: a value, or an error in its words.
    fn try_ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let request = HttpRequest::new(method, path)
            .host(self.address)
            .headers(&["Content-Type: application/json"])
            .body(body.to_string())
            .keep_open();
        let mut stream = raw_socket::connect(self.address);
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        stream.write_all(&request.to_http1()).unwrap();
        let answer = raw_socket::read_response(&mut stream);
        let answer: Value = serde_json::from_str(answer.body()).unwrap();
        let value = answer["value"].clone();
        if value["error"].is_string() {
            Err(value["message"].to_string())
        } else {
            Ok(value)
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends the browser with the session.
        if !self.session.is_empty() {
            let _ = self.try_ask("DELETE", &self.session, &json!({}));
        }
        let _ = self.driver.kill();
        watchdog::forget(self.driver.id());
        let _ = self.driver.wait();
    }
}
