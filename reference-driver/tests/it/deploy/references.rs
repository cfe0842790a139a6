//! Checks that the names to which objects refer exist among them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::yaml::{list_at, text_at};

/// The README asks the administrator to create these objects.
const MADE_BY_HAND: &[&str] = &["csi-snapshot-metadata-certs"];

/// Returns all references that do not match.
pub(super) fn faults(objects: &[Value]) -> Vec<String> {
    let mut finder = Finder { objects, faults: Vec::new() };
    let mut seen = BTreeSet::new();
    for object in objects {
        if !seen.insert((kind(object), namespace(object), name(object))) {
            finder.fault(object, "is there twice".to_owned());
        }
        finder.look_at(object);
    }
    finder.faults
}

struct Finder<'a> {
    objects: &'a [Value],
    faults: Vec<String>,
}

impl<'a> Finder<'a> {
    fn look_at(&mut self, object: &Value) {
        if let Some(namespace) = text_at(object, "/metadata/namespace") {
            self.expect(object, "Namespace", "", Some(namespace));
        }
        match kind(object) {
            "StatefulSet" => self.stateful_set(object),
            "Pod" => self.pod(object, &object["spec"]),
            "Service" => self.service(object),
            "ClusterRoleBinding" | "RoleBinding" => self.binding(object),
            "ClusterRole" | "Role" => self.role(object),
            "PersistentVolumeClaim" => self.claim(object, &object["spec"]),
            "StorageClass" => self.expect(object, "CSIDriver", "", text_at(object, "/provisioner")),
            "VolumeSnapshotClass" | "VolumeGroupSnapshotClass" => {
                self.expect(object, "CSIDriver", "", text_at(object, "/driver"));
            }
            "VolumeAttributesClass" => self.expect(object, "CSIDriver", "", text_at(object, "/driverName")),
            "VolumeSnapshot" => {
                let claim = text_at(object, "/spec/source/persistentVolumeClaimName");
                self.expect(object, "PersistentVolumeClaim", namespace(object), claim);
                self.expect(
                    object,
                    "VolumeSnapshotClass",
                    "",
                    text_at(object, "/spec/volumeSnapshotClassName"),
                );
            }
            "VolumeGroupSnapshot" => self.group_snapshot(object),
            _ => {}
        }
    }

    fn stateful_set(&mut self, object: &Value) {
        let labels = object.pointer("/spec/template/metadata/labels");
        if !selects(object.pointer("/spec/selector/matchLabels"), labels) {
            self.fault(object, "the selector does not match the labels of its own pods".to_owned());
        }
        self.expect(object, "Service", namespace(object), text_at(object, "/spec/serviceName"));
        self.pod(object, &object["spec"]["template"]["spec"]);
    }

    fn service(&mut self, object: &Value) {
        let workload = self.objects.iter().find(|other| {
            namespace(other) == namespace(object)
                && selects(object.pointer("/spec/selector"), other.pointer("/spec/template/metadata/labels"))
        });
        let Some(workload) = workload else {
            return self.fault(object, "the selector matches no pods".to_owned());
        };
        let ports: Vec<&str> = list_at(workload, "/spec/template/spec/containers")
            .iter()
            .flat_map(|container| list_at(container, "/ports"))
            .filter_map(|port| text_at(port, "/name"))
            .collect();
        for port in list_at(object, "/spec/ports") {
            if let Some(target) = text_at(port, "/targetPort")
                && !ports.contains(&target)
            {
                self.fault(object, format!("no container has the port {target}"));
            }
        }
    }

    fn binding(&mut self, object: &Value) {
        let role_kind = text_at(object, "/roleRef/kind").unwrap_or_default();
        let role_namespace = if role_kind == "Role" { namespace(object) } else { "" };
        self.expect(object, role_kind, role_namespace, text_at(object, "/roleRef/name"));
        for subject in list_at(object, "/subjects") {
            let subject_namespace = text_at(subject, "/namespace").unwrap_or_default();
            self.expect(object, kind(subject), subject_namespace, text_at(subject, "/name"));
        }
    }

    /// Records a fault if a role permits all resources, or secrets.
    fn role(&mut self, object: &Value) {
        for rule in list_at(object, "/rules") {
            for (field, what) in [("/verbs", "verb"), ("/resources", "resource"), ("/apiGroups", "group")] {
                let entries = list_at(rule, field);
                if entries.is_empty() || entries.iter().any(|entry| entry == "*" || entry == "secrets") {
                    self.fault(object, format!("a rule has no {what}, or too many: {rule}"));
                }
            }
        }
    }

    fn pod(&mut self, object: &Value, spec: &Value) {
        if let Some(account) = text_at(spec, "/serviceAccountName") {
            self.expect(object, "ServiceAccount", namespace(object), Some(account));
        }
        let volumes: BTreeSet<&str> =
            list_at(spec, "/volumes").iter().filter_map(|volume| text_at(volume, "/name")).collect();
        let mut mounted = BTreeSet::new();
        let mut ports = BTreeSet::new();
        for container in list_at(spec, "/containers") {
            let uses = list_at(container, "/volumeMounts").iter().chain(list_at(container, "/volumeDevices"));
            mounted.extend(uses.filter_map(|used| text_at(used, "/name")));
            for port in list_at(container, "/ports") {
                if !ports.insert(port["containerPort"].as_i64()) {
                    self.fault(object, format!("two containers have the port {}", port["containerPort"]));
                }
            }
            self.probes(object, container);
        }
        for name in mounted.symmetric_difference(&volumes) {
            self.fault(object, format!("the volume {name} is not both declared and used"));
        }
        for volume in list_at(spec, "/volumes") {
            self.volume(object, volume);
        }
    }

    fn probes(&mut self, object: &Value, container: &Value) {
        let own: Vec<&str> =
            list_at(container, "/ports").iter().filter_map(|port| text_at(port, "/name")).collect();
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            if let Some(port) = text_at(container, &format!("/{probe}/httpGet/port"))
                && !own.contains(&port)
            {
                self.fault(object, format!("the {probe} of {} asks an unknown port {port}", name(container)));
            }
        }
    }

    fn volume(&mut self, object: &Value, volume: &Value) {
        if let Some(claim) = text_at(volume, "/persistentVolumeClaim/claimName") {
            self.expect(object, "PersistentVolumeClaim", namespace(object), Some(claim));
        }
        if let Some(driver) = text_at(volume, "/csi/driver") {
            self.expect(object, "CSIDriver", "", Some(driver));
        }
        if let Some(spec) = volume.pointer("/ephemeral/volumeClaimTemplate/spec") {
            self.claim(object, spec);
        }
        if let Some(secret) = text_at(volume, "/secret/secretName")
            && !MADE_BY_HAND.contains(&secret)
        {
            self.fault(object, format!("nobody makes the Secret {secret}"));
        }
    }

    fn claim(&mut self, object: &Value, spec: &Value) {
        self.expect(object, "StorageClass", "", text_at(spec, "/storageClassName"));
        if let Some(class) = text_at(spec, "/volumeAttributesClassName") {
            self.expect(object, "VolumeAttributesClass", "", Some(class));
        }
        if let Some(source) = spec.get("dataSource") {
            self.expect(object, kind(source), namespace(object), text_at(source, "/name"));
        }
    }

    fn group_snapshot(&mut self, object: &Value) {
        let class = text_at(object, "/spec/volumeGroupSnapshotClassName");
        self.expect(object, "VolumeGroupSnapshotClass", "", class);
        let selector = object.pointer("/spec/source/selector/matchLabels");
        let chosen = |other: &&Value| {
            kind(other) == "PersistentVolumeClaim" && selects(selector, other.pointer("/metadata/labels"))
        };
        if !self.objects.iter().any(|other| chosen(&other)) {
            self.fault(object, "the selector chooses no claim".to_owned());
        }
    }

    /// Records a fault unless such an object exists.
    fn expect(&mut self, object: &Value, kind_wanted: &str, namespace_wanted: &str, wanted: Option<&str>) {
        let exists = self.objects.iter().any(|other| {
            kind(other) == kind_wanted && namespace(other) == namespace_wanted && Some(name(other)) == wanted
        });
        if !exists {
            self.fault(object, format!("there is no {kind_wanted} {}", wanted.unwrap_or("without a name")));
        }
    }

    fn fault(&mut self, object: &Value, text: String) {
        self.faults.push(format!("{} {}: {text}", kind(object), name(object)));
    }
}

fn kind(object: &Value) -> &str {
    text_at(object, "/kind").unwrap_or_default()
}

fn name(object: &Value) -> &str {
    text_at(object, "/metadata/name").or_else(|| text_at(object, "/name")).unwrap_or_default()
}

fn namespace(object: &Value) -> &str {
    text_at(object, "/metadata/namespace").unwrap_or_default()
}

/// Returns whether the labels match a selector; an empty selector matches nothing.
fn selects(selector: Option<&Value>, labels: Option<&Value>) -> bool {
    let (Some(selector), Some(labels)) = (selector.and_then(Value::as_object), labels) else { return false };
    !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}
