// The Echo operator as controller-runtime's own examples write one: a reconciler that owns what it applies.
//
// REQUEUE_SECONDS: after how long every Echo is looked at again, 0 for never.
package main

import (
	"context"
	"flag"
	"os"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const manager = client.FieldOwner("echo-controller-runtime")

var groupVersion = schema.GroupVersion{Group: "bench.example.com", Version: "v1"}

type EchoSpec struct {
	Replicas int32 `json:"replicas"`
}

type EchoStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	Replicas           int32 `json:"replicas"`
}

type Echo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              EchoSpec    `json:"spec"`
	Status            *EchoStatus `json:"status,omitempty"`
}

type EchoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Echo `json:"items"`
}

func (e *Echo) DeepCopy() *Echo {
	made := *e
	e.ObjectMeta.DeepCopyInto(&made.ObjectMeta)
	if e.Status != nil {
		status := *e.Status
		made.Status = &status
	}
	return &made
}

func (e *Echo) DeepCopyObject() runtime.Object { return e.DeepCopy() }

func (l *EchoList) DeepCopyObject() runtime.Object {
	made := *l
	made.Items = make([]Echo, len(l.Items))
	for i := range l.Items {
		made.Items[i] = *l.Items[i].DeepCopy()
	}
	return &made
}

type reconciler struct {
	client.Client
	requeue time.Duration
}

func owner(echo *Echo) *metaapply.OwnerReferenceApplyConfiguration {
	return metaapply.OwnerReference().
		WithAPIVersion(groupVersion.String()).WithKind("Echo").WithName(echo.Name).WithUID(echo.UID).
		WithController(true).WithBlockOwnerDeletion(true)
}

func deployment(echo *Echo) *appsapply.DeploymentApplyConfiguration {
	labels := map[string]string{"app": echo.Name}
	container := coreapply.Container().
		WithName("echo").WithImage("inanimate/echo-server:latest").
		WithEnv(coreapply.EnvVar().WithName("PORT").WithValue("8080")).
		WithPorts(coreapply.ContainerPort().WithName("http").WithContainerPort(8080)).
		WithResources(coreapply.ResourceRequirements().WithRequests(corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse("16Mi"),
		}))
	return appsapply.Deployment(echo.Name, echo.Namespace).
		WithLabels(labels).WithOwnerReferences(owner(echo)).
		WithSpec(appsapply.DeploymentSpec().
			WithReplicas(echo.Spec.Replicas).
			WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(coreapply.PodTemplateSpec().
				WithLabels(labels).
				WithSpec(coreapply.PodSpec().WithContainers(container))))
}

func service(echo *Echo) *coreapply.ServiceApplyConfiguration {
	labels := map[string]string{"app": echo.Name}
	port := coreapply.ServicePort().WithName("http").WithPort(80).WithTargetPort(intstr.FromString("http"))
	return coreapply.Service(echo.Name, echo.Namespace).
		WithLabels(labels).WithOwnerReferences(owner(echo)).
		WithSpec(coreapply.ServiceSpec().WithSelector(labels).WithPorts(port))
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var echo Echo
	if err := r.Get(ctx, request.NamespacedName, &echo); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	wanted := deployment(&echo)
	if err := r.Apply(ctx, wanted, manager, client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Apply(ctx, service(&echo), manager, client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	// Apply leaves in its argument what the API server returned.
	status := EchoStatus{ObservedGeneration: echo.Generation, Replicas: *wanted.Spec.Replicas}
	if echo.Status == nil || *echo.Status != status {
		before := client.MergeFrom(echo.DeepCopy())
		echo.Status = &status
		if err := r.Status().Patch(ctx, &echo, before, manager); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	return ctrl.Result{RequeueAfter: r.requeue}, nil
}

func main() {
	workers := flag.Int("workers", 1, "reconciliations at once")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	seconds := 10
	if text, found := os.LookupEnv("REQUEUE_SECONDS"); found {
		parsed, err := strconv.Atoi(text)
		utilruntime.Must(err)
		seconds = parsed
	}

	scheme.Scheme.AddKnownTypes(groupVersion, &Echo{}, &EchoList{})
	metav1.AddToGroupVersion(scheme.Scheme, groupVersion)

	config := ctrl.GetConfigOrDie()
	config.QPS = -1 // no limit in the client: the API server has its own
	operator, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme.Scheme,
		Metrics: server.Options{BindAddress: "0"},
	})
	utilruntime.Must(err)
	utilruntime.Must(ctrl.NewControllerManagedBy(operator).
		For(&Echo{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: *workers}).
		Complete(&reconciler{operator.GetClient(), time.Duration(seconds) * time.Second}))
	utilruntime.Must(operator.Start(ctrl.SetupSignalHandler()))
}
